"""Parts of a document, which terminal, Markdown and page show alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from reports.rendering.drawing import Figure

Medium = Literal["terminal", "markdown", "page"]

WRITTEN: tuple[Medium, ...] = ("markdown", "page")


@dataclass(frozen=True)
class TableCell:
    """A text in a table, with additions that only a page shows."""

    text: str
    quiet: str = ""
    """A less important text next to it, which Markdown puts into parentheses."""
    hint: str = ""
    """Text of a tooltip."""
    link: str = ""
    """Address within the folder of the report."""
    kind: str = ""
    """Class of the style."""
    arm: str = ""
    """Arm whose colour a bar has."""
    share: float = 0.0
    """Length of the bar."""


Text = str | TableCell | tuple[TableCell, ...]
"""Content of a field of a table: a text, or a list of texts."""

Row = tuple[Text, ...]


@dataclass(frozen=True)
class Table:
    """One table of texts."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    words: int = 1
    """Number of leading columns with names or words. The others are numbers."""
    remarks: int = 0
    """Number of trailing columns with words."""
    note: str = ""
    """A text below the table."""
    style: str = "texts"
    """Class of the style."""
    on: tuple[Medium, ...] = WRITTEN
    alike: frozenset[int] = frozenset()
    """Numbers of the rows that a reader may hide."""
    hiding: str = ""
    """Label of the box that hides them, or empty if there is none."""


@dataclass(frozen=True)
class Note:
    """A fact to know before using the numbers."""

    level: Literal["warning", "note"]
    text: str


@dataclass(frozen=True)
class AuditFailure:
    """An audit that returned rows."""

    name: str
    meaning: str
    rows: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """One question with its answer, in words, tables and figures."""

    name: str
    """Anchor for links within the page."""
    question: str
    answer: str = ""
    tables: tuple[Table, ...] = ()
    footnotes: tuple[str, ...] = ()
    """Definition, method and reference of each number in the tables."""
    figures: tuple[Figure, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    """Names with their values."""
    is_detail: bool = False
    """True if a page shows it below all questions."""
    brief: tuple[str, ...] = ()
    """Lines for a terminal."""
    advice: tuple[str, ...] = ()
    """Lines for who plans another experiment."""
    notes: tuple[Note, ...] = ()
    """Notes to read before using any number of the report."""
    origins: tuple[tuple[str, str, str], ...] = ()
    """Numbers, each with the part of `reports/` that computes it and its inputs."""

    def get_tables(self, medium: Medium) -> Iterable[Table]:
        """Return the tables that this medium shows."""
        return (table for table in self.tables if medium in table.on and table.rows)


@dataclass(frozen=True, kw_only=True)
class ReportDocument:
    """A report or a history, in order of importance."""

    kind: str
    title: str
    names: tuple[str, ...]
    """Names of the arms in the order that gives them their colours."""
    audits: tuple[AuditFailure, ...] = ()
    notes: tuple[Note, ...] = ()
    sections: tuple[Section, ...] = ()

    def section(self, name: str) -> Section | None:
        """Return the section of this name, or None if there is nothing to say."""
        return next((section for section in self.sections if section.name == name), None)

    def figures(self, name: str) -> tuple[Figure, ...]:
        """Return the figures of a section; none if there is nothing to say."""
        section = self.section(name)
        return section.figures if section else ()
