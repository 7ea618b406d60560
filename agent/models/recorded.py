"""Models that replay: earlier runs of ours or of mini-swe-agent, or a fixed list of replies."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.errors import ContextWindowExceeded, InvalidSpec, ModelError, OutOfTime
from agent.models import trajectory
from agent.models.chat import bash_call, essential, tokens, tool_call
from agent.models.protocol import Message, ModelInfo, ModelReply, ModelRequest, Usage
from agent.models.spec import RecordedSpec, ScriptedSpec
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
    """A step without a result, after which no model was called in its scope."""

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
        self.instance_id = instance_id
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
            if end := self._ends.get(request.scope):
                raise (OutOfTime if end.why == "time" else ContextWindowExceeded)(end.text)
            count = sum(scope == request.scope for scope, _ in self._calls)
            place = f" in scope {request.scope!r}" if request.scope else ""
            raise ModelError(
                f"the recording of {self.instance_id} ended after {count} calls{place}",
                retryable=False,
            )
        if call.role != request.role:
            raise ModelError(
                f"the recording of {self.instance_id} has an answer of role {call.role!r} where "
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


def for_task(spec: RecordedSpec, task: Task) -> RecordedModel:
    """Return the recording of this task's run.

    Raises:
        InvalidSpec: there is no such file, or it is not a recording of this task.
    """
    name = f"{task.id}.traj.json"
    paths = (spec.path, spec.path / name, spec.path / task.id / name)
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise InvalidSpec(f"{spec.path}: holds no recording of {task.id} ({name})")
    if is_durabench_trajectory(path):
        attempt = load(path)
        info = ModelInfo(attempt.model, "recorded", attempt.native_tools)
        model = RecordedModel(attempt.instance_id, info, attempt.calls, attempt.ends)
    else:
        run = trajectory.load(path)
        info = ModelInfo(run.model, "recorded", run.native_tools, run.action_regex)
        calls = (
            RecordedReply(
                scope="",
                number=number,
                role="",
                message=call.message,
                usage=call.usage,
                finish_reason=call.finish_reason,
            )
            for number, call in enumerate(run.calls)
        )
        model = RecordedModel(run.instance_id, info, calls)
    if model.instance_id != task.id:
        raise InvalidSpec(f"{path}: records {model.instance_id}, not {task.id}")
    return model


def to_json(
    replies: Iterable[ScopedReply],
    ends: list[RecordedEnd],
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
        ends=ends,
    )
    # Not pydantic's own JSON, which rejects surrogate escapes of foreign encodings.
    return json.dumps(trajectory.model_dump(), indent=1)


def is_durabench_trajectory(path: Path) -> bool:
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
        message = _read_reply(self._replies[request.number], request.number)
        usage = Usage(input_tokens=tokens(request.messages), output_tokens=tokens([message]))
        finish_reason = "tool_calls" if message.get("tool_calls") else "stop"
        return ModelReply(message, usage, "none", self.info.name, finish_reason)


def _read_reply(reply: str | dict[str, Any], number: int) -> Message:
    """Return an assistant message. The text or message can be given, or the calls of tools."""
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    if "calls" in reply:
        calls = []
        for at, call in enumerate(reply["calls"]):
            arguments = json.dumps(call.get("arguments") or {})
            message = tool_call(call["tool"], arguments, call_id=f"call_{number}_{at}")
            calls += message["tool_calls"]
        return {"role": "assistant", "content": reply.get("content"), "tool_calls": calls}
    if "command" in reply:
        return bash_call(reply["command"], call_id=f"call_{number}", content=reply.get("content"))
    return essential(reply)
