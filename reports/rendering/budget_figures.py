"""Figures of the budget curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reports.economics import BudgetComparison, BudgetCurve, BudgetStep
from reports.format import percent
from reports.rendering.drawing import Figure, draw_figure, log_axis, percent_axis
from reports.rendering.worth_figures import arm_line
from reports.types import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = 6
"""Maximum number of arms in a figure: the leading pair, the frontier, then those that resolve
most."""


def draw_budgets(report: Report) -> tuple[Figure, ...]:
    """Draw resolved cells by limit of cost, by total spend and by limit of calls, where known."""
    figures = []
    for budget in report.budgets:
        shown = _shown(report, budget)
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


def _shown(report: Report, budget: BudgetComparison) -> list[BudgetCurve]:
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
    return draw_figure(
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
