"""A step, one contact of an attempt with the outside world, and its encoding as bytes."""

import functools
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from pydantic import TypeAdapter

from agent.journal import RecordedStep
from agent.models.protocol import ModelReply, Usage
from agent.workspaces.protocol import CommandResult

StepKind = Literal["model", "command", "action", "event", "limit"]
"""Kinds of steps.

`action` is several contacts with the workspace under one name, such as a tool. `event` is a reading
that touches no workspace, such as the order in which concurrent work ended. `limit` is a step
without a result, because time had run out or the conversation was too long.
"""


@dataclass(frozen=True)
class ActionResult:
    """The result of an action, as JSON."""

    content: Any


@functools.cache
def adapter_of(kind: Any) -> TypeAdapter[Any]:
    """Return the converter of a result's type. To make one takes a millisecond."""
    return TypeAdapter(kind)


@dataclass(frozen=True)
class CutOff:
    """The end of a step that has no result."""

    cut_off: str
    """The time limit, the model's message, or the repository's problem."""
    why: Literal["time", "too_long", "refused", "destroyed", "failed", "turn"] = "time"
    """The reason: out of time, rejected as too long or as invalid by the model, repository
    destroyed, a tool that ends the attempt, or a person who ended the turn."""


Result = ModelReply | CommandResult | ActionResult | CutOff


@dataclass(frozen=True)
class Step:
    """One contact with the outside world, numbered from 0 within its scope."""

    scope: str
    """Path of the branch that made the step; empty for the attempt's main line."""
    seq: int
    kind: StepKind
    request: dict[str, Any]
    """The new part of the request: for a model call, the messages since the last call."""
    request_digest: str
    """SHA-256 of the whole request as canonical JSON."""
    result: Result
    started_at: datetime
    duration_s: float
    replayed: bool = False
    """True if an earlier run recorded the result."""


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_IN_ORDER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def canonical(request: dict[str, Any]) -> bytes:
    """Return a request as canonical JSON: sorted keys, no spaces, UTF-8."""
    return _CANONICAL.encode(request).encode("utf-8", "surrogatepass")


def digest(request: bytes) -> str:
    """Return the SHA-256 of a canonical request."""
    return hashlib.sha256(request).hexdigest()


def encode(result: Result) -> bytes:
    """Return a result as the bytes that are recorded.

    The keys of each object keep their order. A prompt may follow it, so a replay needs the same.

    Raises:
        TypeError: it holds something that is not JSON, which could not be replayed.
    """
    content = vars(result)  # `asdict` would copy it, which takes longer than to encode it
    if isinstance(result, ModelReply):
        content = {**content, "usage": vars(result.usage)}
    return _IN_ORDER.encode(content).encode("utf-8", "surrogatepass")


def decode(kind: str, recorded: bytes) -> Result:
    """Return the result that `encode` was given."""
    content = json.loads(recorded.decode("utf-8", "surrogatepass"))
    if "cut_off" in content:
        return CutOff(**content)
    match kind:
        case "model":
            return ModelReply(**{**content, "usage": Usage(**content["usage"])})
        case "command":
            return CommandResult(**content)
        case _:
            return ActionResult(**content)


def from_record(recorded: RecordedStep) -> Step:
    """Return the step of a record with a result.

    Raises:
        ValueError: the record is an intent without a known result.
    """
    if recorded.result is None:
        raise ValueError(f"step {recorded.scope}/{recorded.seq} has no result")
    return Step(
        recorded.scope,
        recorded.seq,
        cast(StepKind, recorded.kind),
        json.loads(recorded.request.decode("utf-8", "surrogatepass")),
        recorded.digest,
        decode(recorded.kind, recorded.result),
        recorded.started_at,
        recorded.duration_s or 0.0,
        replayed=True,
    )
