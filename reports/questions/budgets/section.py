"""What does a budget buy? Limits per instance, total spend and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from reports.format import count, listing, percent, plural, usd
from reports.questions.budgets.analysis import (
    BudgetComparison,
    BudgetCurve,
    BudgetStep,
    Leader,
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
"""Maximum number of arms in a figure: the leading pair, the frontier, then those that resolve
most."""


def answer(connection: DuckDBPyConnection, report: Report) -> Section | None:
    """Return the results under limits, or None if neither costs nor calls are known."""
    budgets = read_budgets(connection, [arm.name for arm in report.arms])
    if not budgets:
        return None
    return Section(
        "budget",
        "What does a budget buy?",
        " ".join(_answer(budget) for budget in budgets),
        tuple(table for budget in budgets for table in _tables(budget)),
        tuple(_footnotes(budgets)),
        figures=_draw(report, budgets),
    )


def _limit(budget: BudgetComparison) -> Callable[[float], str]:
    """Return the function that formats a limit."""
    return usd if budget.kind == "usd" else _calls


def _calls(limit: float) -> str:
    return plural(round(limit), "call")


def _answer(budget: BudgetComparison) -> str:
    """Name each arm that resolves most at some limit, or the first ones and the last one."""
    if not budget.limits:
        return ""
    if len(budget.curves) == 1:
        return _alone(budget)
    what = "costs" if budget.kind == "usd" else "calls"
    if not budget.leaders:
        return f"No arm resolves anything within a limit of {what}."
    show, (first, *others) = _limit(budget), budget.leaders
    sentence = (
        f"With a limit of {show(first.limit)} per instance, {first.arm} resolves most "
        f"({percent(first.share)})"
    )
    if not others:
        return f"{sentence}, and no higher limit changes the leader."

    def takes_over(leader: Leader) -> str:
        return f"from {show(leader.limit)} on, {leader.arm} ({percent(leader.share)})"

    named = others if len(others) <= NAMED else others[: NAMED - 1]
    sentence = "; ".join([sentence, *map(takes_over, named)])
    if len(named) < len(others):
        changes = plural(len(others) - len(named), "further change")
        sentence += f"; after {changes} of the leader, {takes_over(others[-1])}"
    return f"{sentence}."


def _alone(budget: BudgetComparison) -> str:
    (curve,), show = budget.curves, _limit(budget)
    shares = [f"{percent(curve.share(step))} with {show(step.limit)}" for step in curve.at]
    return f"{curve.arm} resolves {listing(shares)} per instance."


def _tables(budget: BudgetComparison) -> Iterator[Table]:
    show = _limit(budget)
    header = ("arm", *map(show, budget.limits), "no limit")
    limit = "cost" if budget.kind == "usd" else "number of calls"

    def rows(number: Callable[[BudgetCurve, BudgetStep], str]) -> tuple[tuple[str, ...], ...]:
        return tuple(
            (curve.arm, *(number(curve, step) for step in (*curve.at, curve.steps[-1])))
            for curve in budget.curves
        )

    yield Table(
        f"Resolved share of the planned cells, by a limit of the {limit} per instance",
        header,
        rows(lambda curve, step: percent(curve.share(step))),
    )
    if budget.kind == "usd":
        yield Table(
            f"Total spend, by a limit of the {limit} per instance",
            header,
            rows(lambda curve, step: usd(step.spent)),
        )


def _footnotes(budgets: Sequence[BudgetComparison]) -> Iterator[str]:
    yield (
        "Limit per instance: a cell counts as resolved if it was and if it used no more than the "
        "limit. This is what the same attempts would have resolved if each had been stopped at "
        "the limit; an agent that knows its limit may work differently."
    )
    yield (
        "Total spend: sum of what each cell used, at most the limit. The curve of total spend "
        "follows the limit from 0 to none and ends at the actual total, so that it shows the most "
        "that a total budget buys if it is given out as equal limits per instance."
    )
    for budget in budgets:
        what = "costs" if budget.kind == "usd" else "numbers of calls"
        if budget.unknown:
            cells = [f"{arm} {count(number)}" for arm, number in budget.unknown.items()]
            yield (
                f"Resolved cells with unknown {what} are in no curve, so that it is a lower bound: "
                f"{', '.join(cells)}."
            )


def _draw(report: Report, budgets: Sequence[BudgetComparison]) -> tuple[Figure, ...]:
    """Draw resolved cells by limit of cost, by total spend and by limit of calls, where known."""
    figures = []
    for budget in budgets:
        shown = _select_curves(report, budget)
        if budget.kind == "usd":
            figures.append(
                _figure(
                    "budget-cost", "Resolved by a limit of cost", "limit per instance, USD",
                    budget, shown, lambda step: step.limit,
                )
            )  # fmt: skip
            figures.append(
                _figure(
                    "budget-total", "Resolved by total spend", "spend on all instances, USD",
                    budget, shown, lambda step: step.spent,
                )
            )  # fmt: skip
        else:
            figures.append(
                _figure(
                    "budget-calls", "Resolved by a limit of calls", "calls per instance",
                    budget, shown, lambda step: step.limit,
                )
            )  # fmt: skip
    return tuple(figures)


def _select_curves(report: Report, budget: BudgetComparison) -> list[BudgetCurve]:
    """Return the curves to draw, in declared order."""
    pair = report.comparisons[0] if report.comparisons else None
    names = [pair.baseline, pair.candidate] if pair else []
    names += [arm.arm for arm in reversed(report.worth.frontier)]
    ranked = sorted(budget.curves, key=lambda curve: -curve.share(curve.steps[-1]))
    names += [curve.arm for curve in ranked]
    kept = [name for name in dict.fromkeys(names) if name in {c.arm for c in budget.curves}]
    return [curve for curve in budget.curves if curve.arm in kept[:CURVES]]


def _figure(
    name: str,
    title: str,
    label: str,
    budget: BudgetComparison,
    shown: list[BudgetCurve],
    along: Callable[[BudgetStep], float],
) -> Figure:
    def draw(axes: Axes) -> None:
        largest = max(along(curve.steps[-1]) for curve in shown)
        least = min(_start(curve, along) for curve in shown)
        for curve in shown:
            steps = [step for step in curve.steps if along(step) > 0]
            x = [*(along(step) for step in steps), largest * 1.3]
            y = [*(curve.share(step) for step in steps), curve.share(steps[-1])]
            arm_line(axes, x, y, curve.position, curve.arm, drawstyle="steps-post")
        axes.set_xscale("log")
        axes.set_xlim(least / 1.3, largest * 1.3)
        percent_axis(axes.yaxis, axes.set_ylim)
        log_axis(axes, is_usd=budget.kind == "usd")
        axes.grid(visible=True)
        axes.set_xlabel(label)
        axes.set_ylabel("resolved")
        axes.figure.legend(loc="outside lower left", ncols=1, fontsize=9)

    hidden = len(budget.curves) - len(shown)
    told = [f"{curve.arm} {percent(curve.share(curve.steps[-1]))}" for curve in shown]
    return Figure(
        name,
        title,
        "Share of the planned cells that is resolved within the limit."
        + (f" {hidden} more arms are only in the table." if hidden else ""),
        f"{title}; without a limit: {'; '.join(told)}.",
        2.6 + 0.19 * len(shown),
        draw,
    )


def _start(curve: BudgetCurve, along: Callable[[BudgetStep], float]) -> float:
    """Return the use at which the curve leaves 0, or at its first step if nothing is resolved."""
    used = [along(step) for step in curve.steps if along(step) > 0]
    resolving = [along(step) for step in curve.steps if along(step) > 0 and step.resolved]
    return resolving[0] if resolving else used[0]
