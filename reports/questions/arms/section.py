"""The arms: what was planned, resolved and used, and the states of the planned cells."""

from collections.abc import Mapping, Sequence

from reports.analysis.best import get_named_arms
from reports.format import count, mean, of, percent, percents, plural, total
from reports.rendering.sections import Section, Table
from reports.types import STATES, ArmSummary, Report
from reports.wording import cost_per_cell, cost_per_resolved, rank_arms, total_cost

SHOWN_ARMS = 25
"""Number of arms that a terminal lists, best first, besides the arms of the answer."""

HEADER = (
    *("arm", "model", "planned", "resolved", "rate", "95 % interval", "cost", "cost / instance"),
    *("cost / resolved", "calls / instance", "time / instance"),
)

_NOTE = (
    "Cost, calls and time per instance are means over the cells that ran, with their number "
    "unless all planned cells ran. Cost per resolved divides all cost of the arm by its "
    "resolved cells. Costs are those of the attempts that count. A lower bound is marked with ≥."
)


def answer(_: object, report: Report) -> Section:
    """Return the tables of all arms by rate."""
    arms = rank_arms(report)
    counts = count_cells(arms)
    title = "States of the planned cells"
    if "suspect" in counts:
        title += "; suspect cells are resolved cells that the audit doubts"
    states = ((arm.name, *(count(cells[arm.name]) for cells in counts.values())) for arm in arms)
    tables = [
        _list_briefly(report),
        Table("Arms by rate", HEADER, tuple(map(_row, arms)), 2, note=_NOTE),
        Table(title, ("arm", *counts), tuple(states)),
    ]
    if any(tokens for arm in arms for tokens, _ in arm.tokens.sums):
        header = ("arm", "input", "of it cached", "cache writes", "output", "of it reasoning")
        rows = ((arm.name, *(total(*tokens) for tokens in arm.tokens.sums)) for arm in arms)
        tables.append(Table("Tokens", header, tuple(rows)))
    return Section("arms", "Arms", tables=tuple(tables), is_detail=True)


def _row(arm: ArmSummary) -> tuple[str, ...]:
    model = arm.model
    if arm.simulated and "simulated" not in model:
        model += " (simulated)"
    if arm.derived_from:
        model += f"; from {arm.derived_from}"
    return (
        arm.name,
        model,
        count(arm.planned),
        count(arm.resolved),
        percent(arm.rate),
        percents(arm.interval),
        total_cost(arm),
        cost_per_cell(arm),
        cost_per_resolved(arm),
        of(mean(arm.mean_calls), arm.cells_with_calls, arm.planned),
        mean(arm.mean_duration_s, " s"),
    )


def count_cells(arms: Sequence[ArmSummary]) -> Mapping[str, Mapping[str, int]]:
    """Return the numbers of planned cells by name of their state and by arm.

    Resolved and unresolved cells are always there, others if there are any. Cells that are suspect
    or not audited are there if any cell was audited.
    """
    counts = {}
    for state, name in STATES.items():
        cells = {arm.name: arm.states[state] for arm in arms}
        if any(cells.values()) or state in ("resolved", "unresolved"):
            counts[name] = cells
    if sum(arm.unaudited for arm in arms) < sum(arm.resolved for arm in arms):
        counts["suspect"] = {arm.name: arm.suspect for arm in arms}
        counts["not audited"] = {arm.name: arm.unaudited for arm in arms}
    return counts


def _list_briefly(report: Report) -> Table:
    """Return the arms for a terminal, without columns that are unknown for all arms.

    Of many arms, the list has the best ones and the arms that the answer can name.
    """
    every, named = rank_arms(report), get_named_arms(report)
    arms = [arm for place, arm in enumerate(every) if place < SHOWN_ARMS or arm.name in named]
    columns = {
        "arm": [arm.name for arm in arms],
        "resolved": [f"{arm.resolved} of {arm.planned}" for arm in arms],
        "rate": [percent(arm.rate) for arm in arms],
        "95 % interval": [percents(arm.interval) for arm in arms],
    }
    if any(arm.tokens.total for arm in arms):
        columns["tokens"] = [total(arm.tokens.total, arm.tokens.is_lower_bound) for arm in arms]
    if any(arm.cost.usd is not None or arm.cost.is_unmetered for arm in arms):
        columns["cost"] = [total_cost(arm) for arm in arms]
        columns["per resolved"] = [cost_per_resolved(arm) for arm in arms]
    rest = len(every) - len(arms)
    note = f"and {plural(rest, 'more arm')}, all in the report" if rest else ""
    rows = tuple(zip(*columns.values(), strict=True))
    return Table("", tuple(columns), rows, note=note, on=("terminal",))
