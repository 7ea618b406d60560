"""Results by the order of the arms, and without the cells that a budget stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.analysis.paired import read_rows
from reports.strata import BudgetStops, OrderStratum

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def read_strata(connection: DuckDBPyConnection) -> tuple[OrderStratum, ...]:
    """Read the strata of all declared arms, in declared order and by position."""
    return tuple(
        OrderStratum(
            arm=row["arm"],
            order=row["order_in_instance"],
            cells=row["cells"],
            resolved=row["resolved"],
            cost_per_cell=row["cost_usd"] / row["priced_cells"] if row["priced_cells"] else None,
        )
        for row in read_rows(connection, "from marts.order_strata")
    )


def read_stops(connection: DuckDBPyConnection) -> tuple[BudgetStops, ...]:
    """Read the arms of which a budget stopped some cells, in declared order."""
    return tuple(
        BudgetStops(row["arm"], row["planned"], row["resolved"], row["stopped"])
        for row in read_rows(connection, "from marts.budget_stops")
    )
