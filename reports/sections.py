"""Parts of a report, which terminal, Markdown and page show alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
class Note:
    """Something a reader must know before using the numbers."""

    level: Literal["warning", "note"]
    text: str


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
    brief: tuple[str, ...] = ()
    """Lines for a terminal."""
    advice: tuple[str, ...] = ()
    """Lines for who plans another experiment."""
    notes: tuple[Note, ...] = ()
    """What a reader must know before using any number of the report."""
