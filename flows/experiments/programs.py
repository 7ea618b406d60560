"""Columns of attempts that ran a program: what the gateway saw of it."""

from typing import Any

from agent.types import Outcome
from flows.experiments.endings import Interruption
from flows.storage.lake import Row

NONE: Row = {
    "claimed_usd": None,
    "restarts": None,
    "answered_from_record": None,
    "refused_tools": None,
    "agent_version": None,
}
"""These columns of an attempt that ran no program of its own."""


def columns(outcome: Outcome | Interruption) -> Row:
    """Return the columns of what the gateway saw of a program."""
    told = report(outcome)
    if not told:
        return NONE
    own = {name: told.get(name) for name in NONE}
    return {**own, "refused_tools": sum(told.get("server_tools", {}).values())}


def report(outcome: Outcome | Interruption) -> dict[str, Any]:
    """Return the report of a program on itself, empty if the attempt ran none."""
    told = outcome.report if isinstance(outcome, Outcome) else None
    return dict((told or {}).get("command") or {})
