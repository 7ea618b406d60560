"""Every instance: the outcome and cost of each cell, and the suspect verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from reports.format import count, plural, usd
from reports.rendering.sections import Row, Section, Table, TableCell
from reports.types import STATES, Report, ReportCell, State
from reports.wording import MANY_ARMS, name_instance, rank_arms

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

GRID_CELLS = 5_000
"""Maximum number of cells in the table of every instance. A browser needs seconds for more."""

STRIP_CELLS = 100_000
"""Maximum number of cells with a sign."""

SUSPECTS = 100
"""Maximum number of suspect verdicts to list with their reasons."""

MARKS: Mapping[State, str] = {
    "resolved": "●",
    "unresolved": "○",
    "no_patch": "∅",
    "patch_failed": "✕",
    "timeout": "◷",
    "infrastructure": "⚠",
    "stopped": "$",
    "ungraded": "…",
    "missing": "·",
}
"""A symbol for every state, so that no state is marked by colour alone."""

_STRIPS = """
    with arms as (
        select unnest($arms) as arm, generate_subscripts($arms, 1) as rank
    ),

    states as (
        select unnest($states) as state, unnest($signs) as sign
    ),

    cells as (
        select arm, instance_id, instance_position, repeat, position, state
        from marts.cells
        semi join arms using (arm)
        order by instance_position, repeat, position
        limit $most
    ),

    final as (
        select
            instance_id,
            repeat,
            count(*) filter (state = 'resolved') as resolved,
            string_agg(sign, '' order by rank) as signs,
            count(distinct state = 'resolved') filter (arm in (select unnest($pair))) > 1
                as differs,
            min((instance_position, repeat, position)) as place
        from cells
        inner join arms using (arm)
        inner join states using (state)
        group by instance_id, repeat
        having count(*) = len($arms)
    )

    select * exclude (place) from final
    order by place
"""
"""Instances over many arms. Those that some arms do not plan are left out."""


def answer(connection: DuckDBPyConnection, report: Report) -> Section:
    """Return the table of every instance for the page, and the suspect verdicts."""
    pair = report.comparisons[0] if report.comparisons else None
    leading = [pair.baseline, pair.candidate] if pair else []
    hiding = f"only where {pair.candidate} and {pair.baseline} differ" if pair else ""
    if len(report.arms) > MANY_ARMS:
        table = _draw_strips(connection, report, leading, hiding)
    else:
        table = _draw_grid(report, leading, hiding)
    return Section("cells", "Every instance", tables=(table, *_suspects(report)), is_detail=True)


def _format_omission(report: Report, shown: int) -> str:
    rest = report.source.instances * report.source.repeats - shown
    return (
        f"Not listed here but counted everywhere else: {plural(rest, 'more row')}; `durabench "
        f"status {report.source.experiment} --cells` lists every cell."
        if rest
        else ""
    )


def _draw_grid(report: Report, leading: Sequence[str], hiding: str) -> Table:
    """Return the states of few arms, best first, in declared order of the instances."""
    arms = [arm.name for arm in rank_arms(report)]
    by_instance: defaultdict[tuple[str, int], dict[str, ReportCell]] = defaultdict(dict)
    for cell in report.cells[:GRID_CELLS]:
        by_instance[cell.instance_id, cell.repeat][cell.arm] = cell
    whole = [(key, cells) for key, cells in by_instance.items() if len(cells) == len(arms)]
    alike = frozenset(
        place
        for place, (_, cells) in enumerate(whole)
        if len({cells[arm].state == "resolved" for arm in leading}) < 2
    )
    rows: tuple[Row, ...] = tuple(
        (name_instance(report, *key), *(_show(cells[arm]) for arm in arms)) for key, cells in whole
    )
    return Table(
        "Outcome and cost of every instance in every arm",
        ("instance", *arms),
        rows,
        1 + len(arms),
        note=_format_omission(report, len(rows)),
        style="grid",
        on=("page",),
        alike=alike,
        hiding=hiding,
    )


def _show(cell: ReportCell) -> TableCell:
    hint = cell.reason or (cell.detail if cell.state == "infrastructure" else "") or ""
    cost = ""
    if cell.attempt_id:
        is_known = cell.cost_usd is not None
        cost = usd(cell.cost_usd, not cell.is_cost_complete) if is_known else "cost unknown"
    text = f"{MARKS[cell.state]} {STATES[cell.state]}"
    if cell.is_suspect:
        hint, kind = "; ".join(cell.audit_reasons), "state resolved suspect"
        return TableCell(text, quiet=f"? suspect {cost}", hint=hint, kind=kind)
    return TableCell(text, quiet=cost, hint=hint, kind=f"state {cell.state}")


def _draw_strips(
    connection: DuckDBPyConnection, report: Report, leading: Sequence[str], hiding: str
) -> Table:
    """Return one sign for each of many arms, in declared order of the instances."""
    rows = connection.execute(
        _STRIPS,
        {
            "arms": [arm.name for arm in rank_arms(report)],
            "pair": list(leading),
            "states": list(MARKS),
            "signs": list(MARKS.values()),
            "most": STRIP_CELLS,
        },
    ).fetchall()
    signs = ", ".join(f"{sign} {STATES[state]}" for state, sign in MARKS.items())
    return Table(
        f"One sign for each of the {len(report.arms)} arms, in the order of the table of arms: the "
        f"best first. {signs}.",
        ("instance", "resolved by", "arms, best first"),
        tuple(
            (name_instance(report, instance, repeat), count(resolved), strip)
            for instance, repeat, resolved, strip, _ in rows
        ),
        remarks=1,
        note=_format_omission(report, len(rows)),
        style="strips",
        on=("page",),
        alike=frozenset(place for place, row in enumerate(rows) if not row[-1]),
        hiding=hiding,
    )


def _suspects(report: Report) -> Iterator[Table]:
    cells = [cell for cell in report.cells if cell.is_suspect]
    rows: tuple[Row, ...] = tuple(
        (
            cell.arm,
            name_instance(report, cell.instance_id, cell.repeat),
            "; ".join(cell.audit_reasons) or "no reason recorded",
        )
        for cell in cells[:SUSPECTS]
    )
    if rows:
        rest = len(cells) - len(rows)
        note = f"and {count(rest)} more" if rest else ""
        header = ("arm", "instance", "reasons")
        yield Table("Suspect verdicts", header, rows, 3, note=note, on=("page",))
