"""The question what a budget buys: limits per instance, total spend and calls, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from reports.economics import BudgetComparison, BudgetCurve, BudgetStep, Leader
from reports.format import count, listing, percent, plural, usd
from reports.sections import Section, Table
from reports.types import Report

QUESTION = "What does a budget buy?"

NAMED = 4
"""Maximum number of changes of the leader that the answer names one by one."""


def budget_section(report: Report) -> Section:
    """Return the section about budgets: an answer, tables and footnotes."""
    if not report.budgets:
        return Section(
            "budget", QUESTION, "This needs the costs or the numbers of calls of attempts."
        )
    answer = " ".join(_answer(budget) for budget in report.budgets)
    tables = tuple(table for budget in report.budgets for table in _tables(budget))
    return Section("budget", QUESTION, answer, tables, tuple(_footnotes(report)))


def limit_of(budget: BudgetComparison) -> Callable[[float], str]:
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
    show, (first, *others) = limit_of(budget), budget.leaders
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
    (curve,), show = budget.curves, limit_of(budget)
    shares = [f"{percent(curve.share(step))} with {show(step.limit)}" for step in curve.at]
    return f"{curve.arm} resolves {listing(shares)} per instance."


def _tables(budget: BudgetComparison) -> Iterator[Table]:
    show = limit_of(budget)
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


def _footnotes(report: Report) -> Iterator[str]:
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
    for budget in report.budgets:
        what = "costs" if budget.kind == "usd" else "numbers of calls"
        if budget.unknown:
            cells = [f"{arm} {count(number)}" for arm, number in budget.unknown.items()]
            yield (
                f"Resolved cells with unknown {what} are in no curve, so that it is a lower bound: "
                f"{', '.join(cells)}."
            )
