"""Columns and calls of an attempt that ran a program, or reuses steps of another one."""

from collections.abc import Iterable, Sequence
from typing import Any

from agent.arms.command import SCOPE
from agent.models.protocol import ModelReply, Usage
from agent.session.steps import Step
from agent.types import Outcome
from flows.experiments.endings import Interruption
from flows.storage.lake import Row

NO_PROGRAM: Row = {
    "claimed_usd": None,
    "restarts": None,
    "answered_from_record": None,
    "refused_tools": None,
    "agent_version": None,
}
"""These columns of an attempt that ran no program of its own."""


def credited(
    outcome: Outcome | Interruption, steps: Iterable[Step]
) -> Iterable[tuple[Step, ModelReply]]:
    """Yield the answered calls that led to the outcome.

    A program that was started again may not have repeated all calls of its earlier runs. Those are
    billed, but not credited.
    """
    unused = set(_report(outcome).get("unused_calls") or ())
    for step in steps:
        is_left = step.scope == SCOPE and step.seq in unused
        if isinstance(step.result, ModelReply) and not is_left:
            yield step, step.result


def program_columns(outcome: Outcome | Interruption) -> Row:
    """Return the columns of what the gateway saw of a program."""
    told = _report(outcome)
    if not told:
        return NO_PROGRAM
    own = {name: told.get(name) for name in NO_PROGRAM}
    return {**own, "refused_tools": sum(told.get("server_tools", {}).values())}


def _report(outcome: Outcome | Interruption) -> dict[str, Any]:
    report = outcome.report if isinstance(outcome, Outcome) else None
    return dict((report or {}).get("command") or {})


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
