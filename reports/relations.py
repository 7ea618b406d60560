"""Relations created from the SQL files: lake views → `staging` → `marts`.

A file is one query, and its name is the relation's name. Reports, audits and notebooks read the
same relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports.lake import open_lake
from reports.types import AuditFailure

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from upath import UPath

SQL = Path(__file__).parent / "sql"

STAGING = ("experiments", "attempts", "evaluations", "predictions", "llm_calls")

SCANNED_ONCE = ("llm_calls",)
"""Relations that stay views. `llm_calls` is by far the longest table, and only one mart reads it.
The others become tables, because every scan of a lake reopens all of its many small files."""

MARTS = (
    "attempt_scopes",
    "attempt_calls",
    "planned_cells",
    "counted_attempts",
    "counted_evaluations",
    "cells",
    "arms",
    "arm_instances",
    "budget_steps",
    "arm_states",
    "instances",
    "groups",
    "consistency",
    "spreads",
    "unknown_costs",
    "call_uses",
    "tool_uses",
    "order_strata",
    "budget_stops",
    "pairs",
    "leads",
    "failures",
    "failure_counts",
    "failure_examples",
    "paid_attempts",
    "spending",
    "plans",
    "source",
)
"""The marts, in order of dependency."""

AUDIT_EXAMPLES = 3
"""Number of rows of a failed audit that a report shows."""


CELLS = ("planned_cells", "counted_attempts", "counted_evaluations", "cells")
"""`marts.cells` and the marts that it depends on. It stays sorted: sums over equal amounts are the
same to the last digit in every arm, so that arms of equal cost tie."""


def open_marts(
    lake: Path | UPath, experiment: str, marts: Sequence[str] = MARTS
) -> DuckDBPyConnection:
    """Open a connection with the lake's views, the schema `staging` and the schema `marts`.

    The caller closes the connection. Raise ReportError as `reports.lake.open_lake` does.
    """
    connection = open_lake(lake, experiment)
    connection.execute("create schema staging; create schema marts")
    for name in STAGING:
        kind = "view" if name in SCANNED_ONCE else "table"
        _create(connection, kind, "staging", name)
    for name in marts:
        _create(connection, "table", "marts", name)
    return connection


def run_audits(connection: DuckDBPyConnection) -> tuple[AuditFailure, ...]:
    """Run all audits and return those that found rows, by name."""
    found = (_audit(connection, path) for path in sorted((SQL / "audits").glob("*.sql")))
    return tuple(failure for failure in found if failure is not None)


def _create(connection: DuckDBPyConnection, kind: str, layer: str, name: str) -> None:
    query = (SQL / layer / f"{name}.sql").read_text(encoding="utf-8")
    connection.execute(f"create {kind} {layer}.{name} as {query}")


def _audit(connection: DuckDBPyConnection, path: Path) -> AuditFailure | None:
    cursor = connection.execute(path.read_text())
    names = [column[0] for column in cursor.description]
    rows = cursor.fetchall()
    if not rows:
        return None
    examples = tuple(
        ", ".join(f"{name}={value}" for name, value in zip(names, row, strict=True))
        for row in rows[:AUDIT_EXAMPLES]
    )
    return AuditFailure(path.stem, _first_comment(path), len(rows), examples)


def _first_comment(path: Path) -> str:
    """Return the description of an audit from the first line of its file."""
    first, _, _ = path.read_text().partition("\n")
    return first.removeprefix("-- Must be empty:").strip()
