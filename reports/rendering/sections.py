"""Parts of a report that page and Markdown show alike: an answer, tables and footnotes."""

from __future__ import annotations

from dataclasses import dataclass

Row = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """One table of texts."""

    caption: str
    header: Row
    rows: tuple[Row, ...]
    words: int = 1
    """Number of leading columns with names or words. The others are numbers."""
    remarks: int = 0
    """Number of trailing columns with words."""


@dataclass(frozen=True)
class Section:
    """One question with its answer, in words and in tables."""

    name: str
    """Anchor for links within the page."""
    question: str
    answer: str
    tables: tuple[Table, ...] = ()
    footnotes: tuple[str, ...] = ()
    """Definition, method and reference of each number in the tables."""
