"""Replays the model side of an earlier run, with its tokens and costs."""

from collections.abc import Iterable
from pathlib import Path

from agent.errors import AgentError, ContextWindowExceeded, InvalidSpec, ModelError, OutOfTime
from agent.models import durabench_trajectory, trajectory
from agent.models.durabench_trajectory import DurabenchTrajectory, RecordedEnd, RecordedReply
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest
from agent.models.spec import RecordedSpec
from agent.models.trajectory import Trajectory
from agent.types import Task


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
    if durabench_trajectory.is_one(path):
        recorded = durabench_trajectory.load(path)
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
