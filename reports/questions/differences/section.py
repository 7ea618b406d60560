"""Where do the arms of the leading pair differ?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from reports.analysis.differences import Difference, Side, read_sides
from reports.format import count, plural
from reports.rendering.sections import Row, Section, Table, TableCell, Text
from reports.types import FAILURES, Report, ReportCell
from reports.wording import link_cell, name_instance

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NAMED_INSTANCES = 20
"""Maximum number of instances that a list of differences names in Markdown."""


def answer(connection: DuckDBPyConnection, report: Report) -> Section:
    """Return the cells that only one of the two arms resolved, with their trajectories."""
    sides = read_sides(report)
    tables = (_list_instances(sides), _list_cells(report, sides)) if sides else ()
    return Section("differences", "Where do they differ?", _summarise(sides), tables)


def _summarise(sides: Sequence[Side]) -> str:
    if not sides:
        return "There is only one arm, so there is nothing to compare."
    if not any(side.cells for side in sides):
        return f"Nowhere: {sides[0].winner} and {sides[1].winner} resolve the same cells."
    first, second = sides
    return (
        f"{first.winner} alone resolves {plural(first.cells, 'cell')}, {second.winner} alone "
        f"{count(second.cells)}."
    )


def _list_instances(sides: Sequence[Side]) -> Table:
    """Return a short list for Markdown."""
    rows = []
    for side in sides:
        only = list(dict.fromkeys(one.instance_id for one in side.shown))[:NAMED_INSTANCES]
        more = side.cells - sum(one.instance_id in only for one in side.shown)
        rest = f" and {plural(more, 'more cell')}" if more else ""
        if only:
            rows.append((side.winner, ", ".join(only) + rest))
    return Table("", ("only", "resolved"), tuple(rows), 2, on=("markdown",))


def _list_cells(report: Report, sides: Sequence[Side]) -> Table:
    """Return the cells for the page, with links if there is any trajectory."""
    has_links = bool(report.trajectories)
    is_told = any(one.loser.failure != "untold" for side in sides for one in side.shown)
    header = (
        *("instance", "resolved by"),
        *(("its trajectory",) if has_links else ()),
        "not resolved by",
        *(("because",) if is_told else ()),
        *(("its trajectory",) if has_links else ()),
    )

    def row(side: Side, one: Difference) -> Iterator[Text]:
        yield name_instance(report, one.instance_id, one.repeat)
        yield _mark(side.winner, one.winner)
        if has_links:
            yield link_cell(report, one.winner.attempt_id)
        yield side.loser
        if is_told:
            yield FAILURES[one.loser.failure] if one.loser.failure else ""
        if has_links:
            yield link_cell(report, one.loser.attempt_id)

    rows: tuple[Row, ...] = tuple(tuple(row(side, one)) for side in sides for one in side.shown)
    return Table(
        "Each cell that only one of the two arms resolved",
        header,
        rows,
        len(header),
        note=" ".join(_explain(report, sides)),
        style="pairs",
        on=("page",),
    )


def _mark(arm: str, cell: ReportCell) -> Text:
    if not cell.is_suspect:
        return arm
    return TableCell(arm, quiet="? suspect", kind="suspect", hint="; ".join(cell.audit_reasons))


def _explain(report: Report, sides: Sequence[Side]) -> Iterator[str]:
    for side in sides:
        if more := side.cells - len(side.shown):
            yield (
                f"And {count(more)} more that only {side.winner} resolved: `durabench status "
                f"{report.source.experiment} --cells` lists every cell."
            )
    if report.trajectories:
        yield "`durabench trace ATTEMPT` shows a trajectory in a terminal."
    else:
        yield "The lake has no steps of these attempts; imported runs may have none."
