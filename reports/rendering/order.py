"""The order in which a report shows arms, and the sizes from which it shows them differently."""

from __future__ import annotations

from reports.losses import Spending
from reports.types import ArmSummary, Report

MANY_ARMS = 6
"""Above this number of arms, a table has arms as rows and never as columns."""

TALL = 25
"""Above this number of rows, a table or a figure is in a box of its own that scrolls."""


def ranked(report: Report) -> tuple[ArmSummary, ...]:
    """Return the arms by resolution rate, best first. Equal arms keep their declared order."""
    return tuple(sorted(report.arms, key=lambda arm: -arm.rate))


def ranked_spending(report: Report) -> tuple[Spending, ...]:
    """Return the spending of the arms in the order of `ranked`."""
    by_arm = {spending.arm: spending for spending in report.spending}
    return tuple(by_arm[arm.name] for arm in ranked(report))


def positions(report: Report) -> dict[str, int]:
    """Return the declared position of each arm, which decides its colour and marker."""
    return {arm.name: position for position, arm in enumerate(report.arms)}
