"""What a report shows, by the names of its parts."""

from typing import NamedTuple

from reports.rendering.sections import Section
from reports.types import Report


class Line(NamedTuple):
    """A number of the leading pair."""

    name: str
    value: str
    interval: str
    over: str
    method: str


def headline(report: Report) -> str:
    """Return the answer to the first question."""
    return report.sections[0].answer


def section(report: Report, name: str) -> Section:
    """Return a section that the report must have."""
    found = report.section(name)
    assert found is not None, name
    return found


def answers(report: Report) -> dict[str, str]:
    """Return the answers to the questions by name."""
    return {
        each.name: each.answer for each in report.sections if each.question and not each.is_detail
    }


def lines(report: Report, title: str = "") -> list[Line]:
    """Return the numbers of the leading pair: all of them, or those of one table."""
    return [
        Line(*map(str, row))
        for each in report.sections
        for table in each.tables
        if table.style == "numbers" and title in ("", table.header[0])
        for row in table.rows
    ]


def line(report: Report, name: str) -> Line:
    """Return the only number of the leading pair with this name."""
    [found] = [each for each in lines(report) if each.name == name]
    return found


def footnotes(report: Report) -> list[str]:
    """Return the footnotes to the numbers of the leading pair."""
    names = ("resolution", "cost", "leading")
    return [note for name in names for note in section(report, name).footnotes]
