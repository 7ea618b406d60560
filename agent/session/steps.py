"""A step: one contact of an attempt with the outside world, before and after it happens."""

import asyncio
import functools
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, cast

from pydantic import TypeAdapter

from agent.journal import RecordedStep
from agent.models.protocol import Model, ModelReply, ModelRequest, Usage
from agent.workspaces import CommandResult

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


_LOWER_OUTPUT_LIMITS = (8_192, 4_096, 2_048)
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
        cast(StepKind, recorded.kind),
        json.loads(recorded.request.decode("utf-8", "surrogatepass")),
        recorded.digest,
        decode(recorded.kind, recorded.result),
        recorded.started_at,
        recorded.duration_s or 0.0,
        replayed=True,
    )


Resend = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Contact:
    """One contact with the outside world, before it happens."""

    kind: StepKind
    digest: str
    """SHA-256 of the whole request as canonical JSON."""
    kept: dict[str, Any]
    """The part of the request that is recorded."""
    run: Callable[[float], Awaitable[Result]]
    """Executes the request. Takes the remaining seconds."""
    resending: Callable[[Resend], "Contact"] | None = None
    """Returns the same model call with a reservation before it sends its request again."""
    ceiling_usd: Callable[[], float | None] = lambda: 0.0
    inputs: str | None = None
    """Digest of what else decides the result; None if that is unknown."""
    cheaper: Callable[[], Sequence["Contact"]] = lambda: ()
    """Returns the same request with lower limits on its cost, the highest first."""
    in_workspace: bool = False
    """True if it may change the workspace, so that it has to be alone there."""
    in_turn: bool = False
    """True if it only looks at the workspace, between the steps asked for before and after it."""
    ends_with_turn: bool = False
    """True if it is cut off when a person ends the turn, and the arm handles that."""
    is_foreign: bool = False
    """True if another program made the request, and decides what to do if it is refused."""

    def with_resend(self, reserve: Resend) -> "Contact":
        """Return the same contact. A model call awaits `reserve` before it sends again."""
        return self if self.resending is None else self.resending(reserve)

    def dearest_first(self) -> Iterator["Contact"]:
        """Yield this request, and then the cheaper ones, which most calls do not need."""
        yield self
        yield from self.cheaper()


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
        inputs=inputs,
        in_workspace=True,
        ends_with_turn=ends_with_turn,
    )


def call_model(
    model: Model,
    request: ModelRequest,
    whole: str,
    kept: dict[str, Any],
    inputs: str | None = None,
) -> Contact:
    """Return a model call, whose whole request has that digest.

    The limit on its output is no part of the record.
    """

    def call_with_limit(max_tokens: int | None, before_resend: Resend | None = None) -> Contact:
        sent = replace(request, max_tokens=max_tokens, before_resend=before_resend)

        async def answer(left_s: float) -> Result:
            async with asyncio.timeout(left_s if left_s < float("inf") else None):
                return await model.complete(sent)

        return Contact(
            "model",
            whole,
            kept,
            answer,
            lambda resend: call_with_limit(max_tokens, resend),
            lambda: model.ceiling_usd(sent),
            inputs,
            lambda: [call_with_limit(tokens) for tokens in _LOWER_OUTPUT_LIMITS],
            is_foreign=request.foreign is not None,
        )

    return call_with_limit(request.max_tokens)
