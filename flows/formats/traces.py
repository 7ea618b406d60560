"""Attempts of other systems with their steps, as an import reads them. None is unknown."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from eval.types import EvaluationOutcome
from flows.experiments import records
from flows.formats import cells
from flows.formats.facts import AttemptFacts
from flows.formats.shells import command_of
from flows.storage.lake import Row

TOKENS = tuple(records.UNKNOWN_TOKENS)
"""The columns of tokens."""


@dataclass(frozen=True)
class TracedCall:
    """One answered model call, or several that a file counts as one."""

    model: str
    tokens: Mapping[str, int | None]
    """Counts by column of `llm_calls`."""
    cost_usd: float | None
    role: str = ""
    finish_reason: str | None = None
    latency_s: float | None = None
    retries: int = 0
    count: int = 1


@dataclass(frozen=True)
class TracedStep:
    """One step, numbered by its position among the steps of its scope."""

    scope: str
    kind: Literal["model", "command", "action"]
    request: Row
    result: Any
    """An assistant message, the output of a command, or what an action returned."""
    exit_code: int | None = None
    started_at: datetime | None = None
    duration_s: float | None = None
    call: TracedCall | None = None
    """None for a step that called no model, or whose call another step records."""


@dataclass(frozen=True)
class AttemptUsage:
    """Calls, tokens and cost of an attempt, by column of `attempts`."""

    model_calls: int | None = None
    unpriced_calls: int | None = None
    tokens: Mapping[str, int | None] = field(default_factory=lambda: records.UNKNOWN_TOKENS)
    cost_usd: float | None = None


class Harness(NamedTuple):
    """The agent and the model of an attempt, as its file names them."""

    agent: str
    version: str
    """Empty if unknown."""
    model: str
    """Empty if unknown."""


@dataclass(frozen=True)
class Trace:
    """One attempt."""

    source: str
    """The file, for messages."""
    harness: Harness
    instance_id: str
    repo: str
    outcome: str
    """An outcome of the table `attempts`."""
    detail: str
    steps: Sequence[TracedStep]
    usage: AttemptUsage
    digest: str
    """Identifies the content of the file."""
    order: tuple[str, ...] = ()
    """Numbers the attempts at a cell."""
    arm: str | None = None
    """The name of the arm, if the file states it."""
    repeat: int | None = None
    """The number of the attempt at its cell, if the file states it."""
    difficulty: str | None = None
    started_at: datetime | None = None
    duration_s: float | None = None
    patch: str | None = None
    verdict: EvaluationOutcome | None = None
    reason: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def used(
    scope: str, name: str, arguments: Mapping[str, Any], content: Any, **told: Any
) -> TracedStep:
    """Return the use of a tool as a step: a command, or an action of the tool's name."""
    if (command := command_of(name, arguments)) is not None and isinstance(content, str | None):
        return TracedStep(scope, "command", {"command": command}, content or "", **told)
    request = {"action": name, "arguments": dict(arguments)}
    return TracedStep(scope, "action", request, content, **told)


def usage_of(
    calls: Iterable[TracedCall], tokens: Mapping[str, int | None], cost_usd: float | None
) -> AttemptUsage:
    """Return the usage of an attempt: what its file states in total, else the sums of its calls.

    A stated cost of 0 is unknown if there are calls, and none of them has a known cost.
    """
    made = list(calls)
    priced = [call.cost_usd for call in made if call.cost_usd is not None]
    unpriced: int | None = sum(call.count for call in made if call.cost_usd is None)
    if cost_usd == 0 and made and not priced:
        cost_usd = None
    if cost_usd is not None and not math.isclose(cost_usd, sum(priced), abs_tol=1e-6):
        unpriced = None  # the file does not say which calls make up its total
    summed = {name: total(call.tokens.get(name) for call in made) for name in TOKENS}
    return AttemptUsage(
        model_calls=sum(call.count for call in made),
        unpriced_calls=unpriced,
        tokens={
            name: summed[name] if tokens.get(name) is None else tokens[name] for name in TOKENS
        },
        cost_usd=cost_usd if cost_usd is not None else sum(priced) if priced or not made else None,
    )


def told(own: AttemptFacts, steps: Sequence[TracedStep], source: str, digest: str) -> Trace:
    """Return an attempt that `durabench export` wrote."""
    return Trace(
        source=source,
        harness=Harness(own.agent, "", own.model),
        instance_id=own.instance_id,
        repo=own.repo,
        outcome=own.outcome,
        detail=own.detail,
        steps=steps,
        usage=usage_in(own),
        digest=digest,
        arm=own.arm,
        repeat=own.repeat,
        difficulty=own.difficulty,
        started_at=own.started_at,
        duration_s=own.duration_s,
        patch=own.exact_patch,
        verdict=own.verdict,
        reason=own.reason,
        versions=own.versions,
    )


def usage_in(facts: AttemptFacts) -> AttemptUsage:
    """Return the usage in the facts of an attempt that Durabench ran."""
    return AttemptUsage(
        facts.model_calls,
        facts.unpriced_calls,
        {name: getattr(facts, name) for name in TOKENS},
        facts.cost_usd,
    )


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum; None if one of them is unknown."""
    found = 0
    for number in counts:
        if number is None:
            return None
        found += number
    return found


def json_text(value: Any) -> str:
    """Return a value as JSON, as models write arguments."""
    return json.dumps(value, ensure_ascii=False)


def amount(value: float | None, what: str) -> float | None:
    """Return a cost or a duration.

    Raises:
        ValueError: it is negative, infinite or no number.
    """
    if value is None:
        return None
    if not 0 <= value < cells.MOST:
        raise ValueError(f"{what} is {value}, and must be at least 0")
    return value


def count(value: Any, what: str) -> int | None:
    """Return a number of tokens.

    Raises:
        ValueError: it is negative or no whole number.
    """
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < cells.MOST:
        raise ValueError(f"{what} is {value!r}, and must be a whole number of at least 0")
    return value
