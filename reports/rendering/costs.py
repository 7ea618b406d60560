"""An arm's costs in words and numbers, the same on page, in Markdown and in the terminal."""

from reports.format import of, usd
from reports.types import ArmSummary, Report

UNMETERED = "unmetered"
"""Shown for an arm all of whose costs are 0 although it made model calls."""

NONE_KNOWN = "No cost is known, so nothing about cost is compared or drawn."


def has_costs(report: Report) -> bool:
    """Return True if the cost of at least one arm is known."""
    return any(arm.cost.usd is not None for arm in report.arms)


def cost(arm: ArmSummary) -> str:
    """Format the cost of all of the arm's cells."""
    return _amount(arm, arm.cost.usd)


def cost_per_cell(arm: ArmSummary) -> str:
    """Format the mean cost of the cells that ran, with their number if it is not that planned."""
    return of(_amount(arm, arm.cost_per_instance), arm.started, arm.planned)


def cost_per_resolved(arm: ArmSummary) -> str:
    """Format the arm's cost per resolved cell, or state that none is resolved."""
    if arm.resolved == 0:
        return "none resolved"
    return _amount(arm, arm.cost_per_resolved)


def _amount(arm: ArmSummary, amount: float | None) -> str:
    return UNMETERED if arm.cost.is_unmetered else usd(amount, arm.cost.is_lower_bound)
