"""What does a budget buy? Limits per instance, total spend and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from reports.format import count, listing, percent, plural, usd
from reports.questions.budgets.analysis import (
    BudgetComparison,
    BudgetCurve,
    BudgetStep,
    read_budgets,
)
from reports.rendering.drawing import Figure, arm_line, log_axis, percent_axis
from reports.rendering.sections import Section, Table
from reports.types import Report

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from matplotlib.axes import Axes

NAMED = 4
"""Maximum number of changes of the leader that the answer names one by one."""

CURVES = 6
"""Maximum number of arms in a figure: the leading pair, the frontier, then the arms that
resolve most."""

_FIGURES: Mapping[str, tuple[tuple[str, str, str, str], ...]] = {
    "usd": (
        ("budget-cost", "Resolved by a limit of cost", "limit per instance, USD", "limit"),
        ("budget-total", "Resolved by total spend", "spend on all instances, USD", "spent"),
    ),
    "calls": (("budget-calls", "Resolved by a limit of calls", "calls per instance", "limit"),),
}
"""Name, title, label of the axis, and field of a step along it, of the figures of each kind."""


def answer(connection: DuckDBPyConnection, report: Report) -> Section | None:
    """Return the results under limits, or None if neither costs nor calls are known."""
    budgets = read_budgets(connection, [arm.name for arm in report.arms])
    if not budgets:
        return None
    return Section(
        "budget",
        "What does a budget buy?",
        " ".join(_answer(budget) for budget in budgets),
        tuple(table for budget in budgets for table in _list_limits(budget)),
        tuple(_footnotes(budgets)),
        figures=tuple(figure for budget in budgets for figure in _draw(report, budget)),
    )


def _show_calls(limit: float) -> str:
    return plural(round(limit), "call")


def _answer(budget: BudgetComparison) -> str:
    """Name each arm that resolves most at some limit, or the first ones and the last one."""
    if not budget.limits:
        return ""
    show = usd if budget.kind == "usd" else _show_calls
    if len(budget.curves) == 1:
        [curve] = budget.curves
        shares = [f"{percent(curve.share(step))} with {show(step.limit)}" for step in curve.at]
        return f"{curve.arm} resolves {listing(shares)} per instance."
    if not budget.leaders:
        what = "costs" if budget.kind == "usd" else "calls"
        return f"No arm resolves anything within a limit of {what}."
    first, *others = budget.leaders
    sentence = (
        f"With a limit of {show(first.limit)} per instance, {first.arm} resolves most "
        f"({percent(first.share)})"
    )
    if not others:
        return f"{sentence}, and no higher limit changes the leader."
    changes = [
        f"from {show(leader.limit)} on, {leader.arm} ({percent(leader.share)})" for leader in others
    ]
    if len(changes) > NAMED:
        number = plural(len(changes) - NAMED + 1, "further change")
        changes[NAMED - 1 :] = [f"after {number} of the leader, {changes[-1]}"]
    return "; ".join([sentence, *changes]) + "."


def _list_limits(budget: BudgetComparison) -> Iterator[Table]:
    show, limit = (usd, "cost") if budget.kind == "usd" else (_show_calls, "number of calls")
    header = ("arm", *map(show, budget.limits), "no limit")
    rows = [(curve, (*curve.at, curve.steps[-1])) for curve in budget.curves]
    yield Table(
        f"Resolved share of the planned cells, by a limit of the {limit} per instance",
        header,
        tuple((curve.arm, *(percent(curve.share(s)) for s in steps)) for curve, steps in rows),
    )
    if budget.kind == "usd":
        yield Table(
            f"Total spend, by a limit of the {limit} per instance",
            header,
            tuple((curve.arm, *(usd(step.spent) for step in steps)) for curve, steps in rows),
        )


def _footnotes(budgets: Sequence[BudgetComparison]) -> Iterator[str]:
    yield (
        "Limit per instance: a cell counts as resolved if it was and if it used no more than the "
        "limit. These are the results of the same attempts, stopped at the limit; "
        "an agent that knows its limit may work differently."
    )
    yield (
        "Total spend: sum of the amounts that the cells used, each at most the limit. The curve of "
        "total spend follows the limit from 0 to none and ends at the actual total, so that it "
        "shows the most that a total budget buys if it is given out as equal limits per instance."
    )
    for budget in budgets:
        what = "costs" if budget.kind == "usd" else "numbers of calls"
        if budget.unknown:
            cells = [f"{arm} {count(number)}" for arm, number in budget.unknown.items()]
            yield (
                f"Resolved cells with unknown {what} are in no curve, so that it is a lower bound: "
                f"{', '.join(cells)}."
            )


def _draw(report: Report, budget: BudgetComparison) -> Iterator[Figure]:
    """Draw resolved cells by limit of cost and by total spend, or by limit of calls."""
    curves = _choose_curves(report, budget)
    hidden = len(budget.curves) - len(curves)
    for name, title, label, field in _FIGURES[budget.kind]:
        shares = [f"{curve.arm} {percent(curve.share(curve.steps[-1]))}" for curve in curves]
        yield Figure(
            name,
            title,
            "Share of the planned cells that is resolved within the limit."
            + (f" Only in the table: {plural(hidden, 'more arm')}." if hidden else ""),
            f"{title}; without a limit: {'; '.join(shares)}.",
            2.6 + 0.19 * len(curves),
            partial(_draw_curves, curves, label, attrgetter(field), is_usd=budget.kind == "usd"),
        )


def _choose_curves(report: Report, budget: BudgetComparison) -> list[BudgetCurve]:
    """Return the curves to draw, in declared order."""
    pair = report.comparisons[0] if report.comparisons else None
    names = [pair.baseline, pair.candidate] if pair else []
    names += [arm.arm for arm in reversed(report.worth.frontier)]
    ranked = sorted(budget.curves, key=lambda curve: -curve.share(curve.steps[-1]))
    names += [curve.arm for curve in ranked]
    arms = {curve.arm for curve in budget.curves}
    chosen = [name for name in dict.fromkeys(names) if name in arms][:CURVES]
    return [curve for curve in budget.curves if curve.arm in chosen]


def _draw_curves(
    curves: Sequence[BudgetCurve],
    label: str,
    along: Callable[[BudgetStep], float],
    axes: Axes,
    *,
    is_usd: bool,
) -> None:
    largest = max(along(curve.steps[-1]) for curve in curves)
    starts = []
    for curve in curves:
        steps = [step for step in curve.steps if along(step) > 0]
        x = [*map(along, steps), largest * 1.3]
        y = [*map(curve.share, steps), curve.share(steps[-1])]
        arm_line(axes, x, y, curve.position, curve.arm, drawstyle="steps-post")
        # The curve leaves 0 here. It starts at its first step if nothing is resolved.
        starts.append(along(next((step for step in steps if step.resolved), steps[0])))
    axes.set_xscale("log")
    axes.set_xlim(min(starts) / 1.3, largest * 1.3)
    percent_axis(axes.yaxis, axes.set_ylim)
    log_axis(axes, is_usd=is_usd)
    axes.grid(visible=True)
    axes.set_xlabel(label)
    axes.set_ylabel("resolved")
    axes.figure.legend(loc="outside lower left", ncols=1, fontsize=9)
