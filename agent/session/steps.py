"""A step: one contact of an attempt with the outside world, before and after it happens."""

import asyncio
import functools
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import TypeAdapter

from agent.journal import RecordedStep, StepKind
from agent.models.protocol import Model, ModelReply, ModelRequest, Usage
from agent.workspaces import CommandResult


@dataclass(frozen=True)
class ActionResult:
    """The result of an action, as JSON."""

    content: Any


@functools.cache
def adapter_of(kind: Any) -> TypeAdapter[Any]:
    """Return the converter of a result's type. Making one takes a millisecond."""
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


LOWER_OUTPUT_LIMITS = (8_192, 4_096, 2_048)
"""Output limits of a call that is not allowed to cost more, in tokens.

With them, a budget is used up to a few cents. Below the last, most replies would be cut off.
"""

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
        recorded.kind,
        json.loads(recorded.request.decode("utf-8", "surrogatepass")),
        recorded.digest,
        decode(recorded.kind, recorded.result),
        recorded.started_at,
        recorded.duration_s or 0.0,
        replayed=True,
    )


@dataclass(frozen=True)
class ModelCall:
    """A request to a model, before it is sent."""

    model: Model
    request: ModelRequest

    async def answer(self, left_s: float) -> Result:
        """Return the model's reply."""
        async with asyncio.timeout(left_s if left_s < float("inf") else None):
            return await self.model.complete(self.request)


@dataclass(frozen=True)
class Contact:
    """One contact with the outside world, before it happens."""

    kind: StepKind
    digest: str
    """SHA-256 of the whole request as canonical JSON."""
    record: dict[str, Any]
    """The part of the request that is recorded."""
    run: Callable[[float], Awaitable[Result]]
    """Executes the request. Takes the remaining seconds."""
    inputs: str | None = None
    """Digest of all else that decides the result; None if it is unknown."""
    call: ModelCall | None = None
    """The request to a model, which `run` sends; None for any other contact."""
    in_workspace: bool = False
    """True if it may change the workspace, so that it has to be alone there."""
    in_turn: bool = False
    """True if it only looks at the workspace, between the steps asked for before and after it."""
    ends_with_turn: bool = False
    """True if it is cut off when a person ends the turn, and the arm handles that."""


def work_in_workspace(
    kind: StepKind,
    request: dict[str, Any],
    run: Callable[[float], Awaitable[Result]],
    inputs: str | None,
    *,
    ends_with_turn: bool = False,
) -> Contact:
    """Return work in the workspace, whose request is recorded whole."""
    return Contact(
        kind,
        digest(canonical(request)),
        request,
        run,
        inputs,
        in_workspace=True,
        ends_with_turn=ends_with_turn,
    )


def call_model(
    model: Model,
    request: ModelRequest,
    request_digest: str,
    record: dict[str, Any],
    inputs: str | None = None,
) -> Contact:
    """Return a model call with the digest of its whole request.

    The record does not contain the limit on its output.
    """
    call = ModelCall(model, request)
    return Contact("model", request_digest, record, call.answer, inputs, call)
