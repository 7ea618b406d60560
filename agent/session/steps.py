"""A step: one contact of an attempt with the world, and how it is kept as bytes."""

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, cast

from agent.journal import RecordedStep
from agent.models.protocol import ModelReply, Usage
from agent.workspaces.protocol import CommandResult

StepKind = Literal["model", "command", "action", "limit"]
"""`action`: several contacts with the workspace under one name, such as a tool; `limit`: a
step that nothing came of, because time had run out or the conversation was too long."""


@dataclass(frozen=True)
class ActionResult:
    """What an action came to, as JSON."""

    content: Any


@dataclass(frozen=True)
class CutOff:
    """Nothing came of the step."""

    cut_off: str
    """Which time, what the model said, or what is the matter with the repository."""
    why: Literal["time", "too_long", "destroyed"] = "time"
    """Time had run out, a model refused to read so much, or it left no repository and was
    undone."""


Result = ModelReply | CommandResult | ActionResult | CutOff


@dataclass(frozen=True)
class Step:
    """One contact with the world, numbered from 0 within its scope."""

    scope: str
    """Path of the branch that made it; empty for the attempt's main line."""
    seq: int
    kind: StepKind
    request: dict[str, Any]
    """What is new in it: for a model call the messages since the last one."""
    request_digest: str
    """SHA-256 of the whole request as canonical JSON."""
    result: Result
    started_at: datetime
    duration_s: float
    replayed: bool = False
    """Whether the result was recorded by an earlier run."""


def canonical(request: dict[str, Any]) -> bytes:
    """A request as canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def digest(request: bytes) -> str:
    """SHA-256 of a canonical request."""
    return hashlib.sha256(request).hexdigest()


def encode(result: Result) -> bytes:
    """A result as it is recorded."""
    return canonical(asdict(result))


def decode(kind: str, recorded: bytes) -> Result:
    """What `encode` was given."""
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
    """A recorded step that has a result.

    Raises:
        ValueError: it is an intent, whose result nobody knows.
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
