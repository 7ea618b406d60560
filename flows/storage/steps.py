"""The steps of attempts that the lake has: imported ones, and those that the journal forgot."""

from collections.abc import Iterator
from datetime import UTC, datetime

from flows.storage.lake import Lake, Row
from reports.steps import StepView, of_row


def filed(lake: Lake, attempt_id: str) -> Iterator[StepView]:
    """Yield the steps of an attempt for display, in the order in which they began."""
    calls = {(call["scope"], call["seq"]): call for call in lake.find("llm_calls", attempt_id)}
    for row in sorted(lake.find("steps", attempt_id), key=_order):
        yield of_row(row, calls.get((row["scope"], row["seq"])))


def _order(row: Row) -> tuple[datetime, str, int]:
    """Sort key: the order in which steps began. Imported steps have no times."""
    return row["started_at"] or datetime.min.replace(tzinfo=UTC), row["scope"], row["seq"]
