"""Where do the arms of the leading pair differ?"""

from collections.abc import Sequence

from reports.analysis.differences import Side, read_sides
from reports.format import count, plural
from reports.rendering.sections import Row, Section, Table, TableCell, Text
from reports.types import FAILURES, Report
from reports.wording import link_cell, name_instance

NAMED_INSTANCES = 20
"""Maximum number of instances that a list of differences names in Markdown."""


def answer(_: object, report: Report) -> Section:
    """Return the cells that only one of the two arms resolved, with their trajectories."""
    sides = read_sides(report)
    tables = (_list_instances(sides), _list_cells(report, sides)) if sides else ()
    return Section("differences", "Where do they differ?", _summarise(sides), tables)


def _summarise(sides: Sequence[Side]) -> str:
    if not sides:
        return "There is only one arm, so there is nothing to compare."
    first, second = sides
    if not first.cells and not second.cells:
        return f"Nowhere: {first.winner} and {second.winner} resolve the same cells."
    return (
        f"{first.winner} alone resolves {plural(first.cells, 'cell')}, {second.winner} alone "
        f"{count(second.cells)}."
    )


def _list_instances(sides: Sequence[Side]) -> Table:
    """Return a short list for Markdown."""
    rows = []
    for side in sides:
        names = list(dict.fromkeys(cell.instance_id for cell in side.shown))[:NAMED_INSTANCES]
        more = side.cells - sum(cell.instance_id in names for cell in side.shown)
        rest = f" and {plural(more, 'more cell')}" if more else ""
        if names:
            rows.append((side.winner, ", ".join(names) + rest))
    return Table("", ("only", "resolved"), tuple(rows), 2, on=("markdown",))


def _list_cells(report: Report, sides: Sequence[Side]) -> Table:
    """Return the cells for the page, with links if there is any trajectory."""
    has_links = bool(report.trajectories)
    has_reasons = any(cell.loser.failure != "untold" for side in sides for cell in side.shown)
    header = ["instance", "resolved by", "not resolved by"]
    if has_reasons:
        header.append("because")
    if has_links:
        header.insert(2, "its trajectory")
        header.append("its trajectory")
    rows: list[Row] = []
    notes = []
    for side in sides:
        for cell in side.shown:
            winner: Text = side.winner
            if cell.winner.is_suspect:
                hint = "; ".join(cell.winner.audit_reasons)
                winner = TableCell(side.winner, quiet="? suspect", kind="suspect", hint=hint)
            row = [name_instance(report, cell.instance_id, cell.repeat), winner, side.loser]
            if has_reasons:
                row.append(FAILURES[cell.loser.failure] if cell.loser.failure else "")
            if has_links:
                row.insert(2, link_cell(report, cell.winner.attempt_id))
                row.append(link_cell(report, cell.loser.attempt_id))
            rows.append(tuple(row))
        if more := side.cells - len(side.shown):
            notes.append(
                f"And {count(more)} more that only {side.winner} resolved: `durabench status "
                f"{report.source.experiment} --cells` lists every cell."
            )
    notes.append(
        "`durabench trace ATTEMPT` shows a trajectory in a terminal."
        if has_links
        else "The lake has no steps of these attempts; imported runs may have none."
    )
    return Table(
        "Each cell that only one of the two arms resolved",
        tuple(header),
        tuple(rows),
        len(header),
        note=" ".join(notes),
        style="pairs",
        on=("page",),
    )
