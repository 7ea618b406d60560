"""The SQL files turned into relations: lake views → `staging` → `marts`.

A file is one query; its name is the relation's name. Reports, audits and notebooks read the
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
"""Stays a view: by far the longest table, and one mart reads it. The others become tables, as
every scan of a lake opens all of its many small files again."""

MARTS = (
    "attempt_calls",
    "planned_cells",
    "counted_attempts",
    "counted_evaluations",
    "cells",
    "arms",
    "arm_states",
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
"""In the order in which they build on each other."""

AUDIT_EXAMPLES = 3
"""Rows of a failed audit that a report shows."""


CELLS = ("planned_cells", "counted_attempts", "counted_evaluations", "cells")
"""The marts that `marts.cells` is built on, and itself."""


def open_marts(
    lake: Path | UPath, experiment: str, marts: Sequence[str] = MARTS
) -> DuckDBPyConnection:
    """A connection with the lake's views, the schema `staging` and the schema `marts`.

    The caller closes it. Raises ReportError as `reports.lake.open_lake` does.
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
    """The audits that returned rows, by name."""
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
    """What an audit looks for, from the first line of its file."""
    first, _, _ = path.read_text().partition("\n")
    return first.removeprefix("-- Must be empty:").strip()
