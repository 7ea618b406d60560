"""Models that replay: earlier runs of ours or of mini-swe-agent, or a fixed list of replies."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.errors import AgentError, ContextWindowExceeded, InvalidSpec, ModelError, OutOfTime
from agent.models import trajectory
from agent.models.chat import bash_call, essential, tokens, tool_call
from agent.models.protocol import Message, ModelInfo, ModelReply, ModelRequest, Usage
from agent.models.spec import RecordedSpec, ScriptedSpec
from agent.models.trajectory import Trajectory
from agent.types import Task

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


class RecordedModel:
    """A model that answers call n of a scope with the n-th recorded answer, whatever is asked."""

    def __init__(
        self,
        instance_id: str,
        info: ModelInfo,
        calls: Iterable[RecordedReply],
        ends: Iterable[RecordedEnd] = (),
    ) -> None:
        self.info = info
        self._instance_id = instance_id
        self._calls = {(call.scope, call.number): call for call in calls}
        self._ends = {end.scope: end for end in ends}

    def ceiling_usd(self, request: ModelRequest) -> float:
        """Return the cost of the recorded call."""
        call = self._calls.get((request.scope, request.number))
        return (call.usage.cost_usd or 0.0) if call else 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the recorded answer.

        Raises:
            OutOfTime, ContextWindowExceeded: the recording ended with this error.
            ModelError: the recording has ended, or has another role at this position.
        """
        call = self._calls.get((request.scope, request.number))
        if call is None:
            raise self._ended(request.scope)
        if call.role != request.role:
            raise ModelError(
                f"the recording of {self._instance_id} has an answer of role {call.role!r} where "
                f"{request.role!r} is asked (call {request.number} of scope {request.scope!r})",
                retryable=False,
            )
        return ModelReply(
            message=dict(call.message),
            usage=call.usage,
            cost_source="unknown" if call.usage.cost_usd is None else "recorded",
            model=self.info.name,
            finish_reason=call.finish_reason,
        )

    def _ended(self, scope: str) -> AgentError:
        if end := self._ends.get(scope):
            return (OutOfTime if end.why == "time" else ContextWindowExceeded)(end.text)
        count = sum(recorded == scope for recorded, _ in self._calls)
        place = f" in scope {scope!r}" if scope else ""
        text = f"the recording of {self._instance_id} ended after {count} calls{place}"
        return ModelError(text, retryable=False)


def for_task(spec: RecordedSpec, task: Task) -> RecordedModel:
    """Return the recording of this task's run.

    Raises:
        InvalidSpec: there is no such file, or it is not a recording of this task.
    """
    path = _file(spec.path, task.id)
    recorded: Trajectory | DurabenchTrajectory
    if is_one(path):
        recorded = load(path)
        model = _ours(recorded)
    else:
        recorded = trajectory.load(path)
        model = _minis(recorded)
    if recorded.instance_id != task.id:
        raise InvalidSpec(f"{path}: records {recorded.instance_id}, not {task.id}")
    return model


def _ours(recorded: DurabenchTrajectory) -> RecordedModel:
    info = ModelInfo(recorded.model, "recorded", recorded.native_tools)
    return RecordedModel(recorded.instance_id, info, recorded.calls, recorded.ends)


def _minis(recorded: Trajectory) -> RecordedModel:
    info = ModelInfo(recorded.model, "recorded", recorded.native_tools, recorded.action_regex)
    calls = (
        RecordedReply(
            scope="",
            number=number,
            role="",
            message=call.message,
            usage=call.usage,
            finish_reason=call.finish_reason,
        )
        for number, call in enumerate(recorded.calls)
    )
    return RecordedModel(recorded.instance_id, info, calls)


def _file(path: Path, task_id: str) -> Path:
    if path.is_file():
        return path
    name = f"{task_id}.traj.json"
    for candidate in (path / name, path / task_id / name):
        if candidate.is_file():
            return candidate
    raise InvalidSpec(f"{path}: holds no recording of {task_id} ({name})")


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


class ScriptedModel:
    """Answers call n with the n-th reply. No money is involved; tokens are estimates."""

    def __init__(self, spec: ScriptedSpec) -> None:
        self.info = ModelInfo("scripted", "scripted", spec.native_tools)
        self._replies = spec.replies

    def ceiling_usd(self, request: ModelRequest) -> float:
        """Return 0, because no money is involved."""
        return 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next reply.

        Raises:
            ModelError: the script has ended.
        """
        if request.number >= len(self._replies):
            raise ModelError(
                f"the script ended after {len(self._replies)} replies", retryable=False
            )
        message = _message(self._replies[request.number], request.number)
        usage = Usage(input_tokens=tokens(request.messages), output_tokens=tokens([message]))
        finish_reason = "tool_calls" if message.get("tool_calls") else "stop"
        return ModelReply(message, usage, "none", self.info.name, finish_reason)


def _message(reply: str | dict[str, Any], number: int) -> Message:
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    if "calls" in reply:
        return _calling(reply, number)
    if "command" in reply:
        return bash_call(reply["command"], call_id=f"call_{number}", content=reply.get("content"))
    return essential(reply)


def _calling(reply: dict[str, Any], number: int) -> Message:
    """Return a message that calls tools."""
    calls = [
        tool_call(
            each["tool"], json.dumps(each.get("arguments") or {}), call_id=f"call_{number}_{at}"
        )["tool_calls"][0]
        for at, each in enumerate(reply["calls"])
    ]
    return {"role": "assistant", "content": reply.get("content"), "tool_calls": calls}
