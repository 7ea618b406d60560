"""Tables of the results by order, and without the cells that a budget stopped."""

from collections.abc import Sequence

from reports.format import DASH, count, percent, usd
from reports.strata import BudgetStops, OrderStratum

ORDER_HEADER = ("arm", "began as number", "cells", "resolved", "rate", "cost / cell")

ORDER_NOTE = (
    "The arms begin each instance in a random order. If a provider drifts while an instance is "
    "run, rates or costs change with the position. The order is random, so this favours no arm."
)

STOPS_HEADER = ("arm", "stopped by a budget", "rate over all planned cells", "rate without them")

STOPS_NOTE = (
    "Everywhere else, a cell that a budget stopped counts as not resolved. Without such cells, the "
    "rate says what the arm did where it could finish; cells that cost more are missing from it."
)


def order_rows(strata: Sequence[OrderStratum]) -> list[tuple[str, ...]]:
    """Return the cells of the table by order."""
    return [
        (
            one.arm,
            str(one.order + 1),
            count(one.cells),
            count(one.resolved),
            percent(one.resolved / one.cells),
            usd(one.cost_per_cell),
        )
        for one in strata
    ]


def stop_rows(stops: Sequence[BudgetStops]) -> list[tuple[str, ...]]:
    """Return the cells of the table of budget stops."""
    return [
        (
            one.arm,
            f"{count(one.stopped)} of {count(one.planned)}",
            percent(one.resolved / one.planned),
            DASH if one.rate is None else percent(one.rate),
        )
        for one in stops
    ]
