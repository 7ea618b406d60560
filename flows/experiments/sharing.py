"""Columns of an attempt that has steps of another one, by a fork or because its arm is derived."""

from collections.abc import Sequence

from agent.models.protocol import Usage
from flows.storage.lake import Row

NOTHING_KNOWN: Row = {"base_attempt_id": None, "reused_calls": None, "reused_usd": None}
"""These columns of an attempt of another system."""


def sharing_columns(base_attempt_id: str | None, reused: Sequence[Usage]) -> Row:
    """Return the columns of an attempt, given the usage of the calls that it reuses."""
    return {
        "base_attempt_id": base_attempt_id,
        "reused_calls": len(reused),
        "reused_usd": known_usd(reused),
    }


def known_usd(usages: Sequence[Usage]) -> float | None:
    """Return the known cost of calls, or None if no cost of any is known."""
    priced = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    return sum(priced) if priced or not usages else None
