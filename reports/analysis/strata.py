"""Results by the order of the arms, by cut-off date, and without the cells a budget stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING

from reports.analysis.paired import read_rows
from reports.errors import ReportError
from reports.strata import BudgetStops, DateStratum, OrderStratum

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


def read_dates(
    connection: DuckDBPyConnection, cutoffs: Mapping[str, date]
) -> tuple[DateStratum, ...]:
    """Read the strata of the arms whose model has a cut-off date, in declared order.

    Instances of an unknown date are in none.

    Raises:
        ReportError: no arm has one of the models.
    """
    rows = read_rows(connection, "from marts.instance_dates")
    if unknown := cutoffs.keys() - {row["model"] for row in rows}:
        known = ", ".join(sorted({row["model"] for row in rows}))
        raise ReportError(f"no arm has the model {sorted(unknown)[0]!r}; the models are {known}")
    sums: dict[tuple[str, str, bool], Counter[str]] = {}
    for row in rows:
        if row["model"] in cutoffs and row["instance_date"] is not None:
            key = row["arm"], row["model"], row["instance_date"] > cutoffs[row["model"]]
            counts = {name: row[name] for name in ("instances", "cells", "resolved")}
            sums.setdefault(key, Counter()).update(counts)
    return tuple(
        DateStratum(
            arm, model, cutoffs[model], is_after, one["instances"], one["cells"], one["resolved"]
        )
        for (arm, model, is_after), one in sums.items()
    )
