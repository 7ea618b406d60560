"""The arms: what was planned, resolved and used, and the states of the planned cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reports.analysis.best import named_arms
from reports.format import count, mean, of, percent, percents, total
from reports.rendering.sections import Section, Table
from reports.types import STATES, ArmSummary, Report
from reports.wording import cost_per_cell, cost_per_resolved, ranked, total_cost

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHOWN_ARMS = 25
"""Number of arms that a terminal lists, best first, besides those that the answer names."""

HEADER = (
    *("arm", "model", "planned", "resolved", "rate", "95 % interval", "cost", "cost / instance"),
    *("cost / resolved", "calls / instance", "time / instance"),
)

_NOTE = (
    "Cost, calls and time per instance are means over the cells that ran, with their number where "
    "it is not that of the planned ones. Cost per resolved divides all cost of the arm by its "
    "resolved cells. Costs are those of the attempts that count. A lower bound is marked with ≥."
)


def answer(connection: DuckDBPyConnection, report: Report) -> Section:
    """Return the tables of all arms by rate."""
    arms = ranked(report)
    counts = count_cells(arms)
    states = tuple(
        (arm.name, *(count(cells[arm.name]) for cells in counts.values())) for arm in arms
    )
    doubt = (
        "; suspect cells are resolved cells that the audit doubts" if "suspect" in counts else ""
    )
    tables = (
        _list_briefly(report),
        Table("Arms by rate", HEADER, tuple(map(_row, arms)), 2, note=_NOTE),
        Table("States of the planned cells" + doubt, ("arm", *counts), states),
        *_tokens(arms),
    )
    return Section("arms", "Arms", tables=tables, is_detail=True)


def _row(arm: ArmSummary) -> tuple[str, ...]:
    is_simulated = arm.simulated and "simulated" not in arm.model
    return (
        arm.name,
        arm.model
        + (" (simulated)" if is_simulated else "")
        + (f"; from {arm.derived_from}" if arm.derived_from else ""),
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
    counts = {name: {arm.name: arm.states[state] for arm in arms} for state, name in STATES.items()}
    occurring = {
        name: cells
        for name, cells in counts.items()
        if any(cells.values()) or name in (STATES["resolved"], STATES["unresolved"])
    }
    if sum(arm.unaudited for arm in arms) < sum(arm.resolved for arm in arms):
        occurring["suspect"] = {arm.name: arm.suspect for arm in arms}
        occurring["not audited"] = {arm.name: arm.unaudited for arm in arms}
    return occurring


def _tokens(arms: Sequence[ArmSummary]) -> tuple[Table, ...]:
    """Return the table of tokens if any number of them is known and not 0."""
    if not any(tokens for arm in arms for tokens, _ in arm.tokens.sums):
        return ()
    header = ("arm", "input", "of it cached", "cache writes", "output", "of it reasoning")
    rows = tuple((arm.name, *(total(*tokens) for tokens in arm.tokens.sums)) for arm in arms)
    return (Table("Tokens", header, rows),)


def _list_briefly(report: Report) -> Table:
    """Return the arms for a terminal, without columns of which nothing is known.

    Of many arms, the best ones are listed and those that the answer may name.
    """
    every, named = ranked(report), named_arms(report)
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
    note = f"and {count(rest)} more arms, all in the report" if rest else ""
    rows = tuple(zip(*columns.values(), strict=True))
    return Table("", tuple(columns), rows, note=note, on=("terminal",))
