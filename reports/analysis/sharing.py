"""Arms that derive from others, and what they share with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.analysis.paired import read_rows
from reports.sharing import Sharing

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_COLUMNS = (
    *("arm", "derived_from", "origin", "attempts", "calls", "reused_calls"),
    *("credited_usd", "reused_usd", "billed_usd", "incomplete_cells", "unbilled_cells"),
)


def read_sharing(connection: DuckDBPyConnection) -> tuple[Sharing, ...]:
    """Read all derived arms, in declared order. `connection` has the marts."""
    rows = read_rows(connection, "from marts.sharing")
    return tuple(Sharing(**{name: row[name] for name in _COLUMNS}) for row in rows)
