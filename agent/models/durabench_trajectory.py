"""The model side of one of our own attempts as a file that can be replayed elsewhere."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.errors import InvalidSpec
from agent.models.protocol import Message, ModelReply, Usage

EndReason = Literal["time", "too_long"]
"""Time had run out, or a model rejected the length of the conversation."""

Format = Literal["durabench-trajectory-1"]
FORMAT: Format = "durabench-trajectory-1"


class ScopedReply(NamedTuple):
    """One answered model call of an attempt."""

    scope: str
    role: str
    reply: ModelReply


class ScopedEnd(NamedTuple):
    """A step of an attempt without a result. No model was called after it in its scope."""

    scope: str
    why: EndReason
    text: str


class RecordedReply(BaseModel):
    """One answer, and the position of its call."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scope: str
    number: int = Field(ge=0, description="calls of the scope that were answered before")
    role: str
    message: Message
    usage: Usage
    finish_reason: str | None


class RecordedEnd(BaseModel):
    """The reason why a scope has no further answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scope: str
    why: EndReason
    text: str


class DurabenchTrajectory(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format
    instance_id: str
    model: str = Field(description="the name of the model; the first one where roles differ")
    native_tools: bool
    calls: list[RecordedReply]
    ends: list[RecordedEnd] = Field(default=[], description="scopes that were cut off")


def to_json(
    replies: Iterable[ScopedReply],
    ends: Iterable[ScopedEnd],
    *,
    instance_id: str,
    model: str,
    native_tools: bool,
) -> str:
    """Return the text of the file.

    `replies` and `ends` belong to one attempt. The replies of each scope are in order, while scopes
    may alternate.
    """
    answered: Counter[str] = Counter()
    calls = []
    for scope, role, reply in replies:
        calls.append(
            RecordedReply(
                scope=scope,
                number=answered[scope],
                role=role,
                message=reply.message,
                usage=reply.usage,
                finish_reason=reply.finish_reason,
            )
        )
        answered[scope] += 1
    trajectory = DurabenchTrajectory(
        format=FORMAT,
        instance_id=instance_id,
        model=model,
        native_tools=native_tools,
        calls=calls,
        ends=[RecordedEnd(**end._asdict()) for end in ends],
    )
    # Not pydantic's own JSON, which rejects surrogate escapes of foreign encodings.
    return json.dumps(trajectory.model_dump(), indent=1)


def is_one(path: Path) -> bool:
    """Return True if a file claims to be such a trajectory."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and data.get("format") == FORMAT


def load(path: Path) -> DurabenchTrajectory:
    """Read a file.

    Raises:
        InvalidSpec: the file cannot be read or is invalid.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return DurabenchTrajectory.model_validate(data)
    except OSError as error:
        raise InvalidSpec(f"{path}: {error.strerror or error}") from None
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(map(str, problem["loc"]))
        raise InvalidSpec(f"{path}: not a {FORMAT} ({field}: {problem['msg']})") from None
    except ValueError as error:
        raise InvalidSpec(f"{path}: not a {FORMAT} ({error})") from None
