"""Replays the model side of a mini-swe-agent trajectory, with its tokens and costs."""

from pathlib import Path

from agent.errors import InvalidSpec, ModelError
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest
from agent.models.spec import RecordedSpec
from agent.models.trajectory import Trajectory, load
from agent.types import Task


class RecordedModel:
    """Answers call n with the n-th recorded answer, whatever is asked."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.info = ModelInfo(
            name=trajectory.model,
            provider="recorded",
            native_tools=trajectory.native_tools,
            action_regex=trajectory.action_regex,
        )
        self._trajectory = trajectory

    def ceiling_usd(self, request: ModelRequest) -> float:
        """What the recorded call cost."""
        following = self._trajectory.calls[request.number : request.number + 1]
        return sum(call.usage.cost_usd or 0.0 for call in following)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """The next recorded answer.

        Raises:
            ModelError: the recording has ended.
        """
        calls = self._trajectory.calls
        if request.number >= len(calls):
            name = self._trajectory.instance_id
            raise ModelError(
                f"the recording of {name} ended after {len(calls)} calls", retryable=False
            )
        call = calls[request.number]
        return ModelReply(
            message=dict(call.message),
            usage=call.usage,
            cost_source="unknown" if call.usage.cost_usd is None else "recorded",
            model=self._trajectory.model,
            finish_reason=call.finish_reason,
        )


def for_task(spec: RecordedSpec, task: Task) -> RecordedModel:
    """The recording of this task's run.

    Raises:
        InvalidSpec: there is no such file, or it is no recording of this task.
    """
    path = _file(spec.path, task.id)
    trajectory = load(path)
    if trajectory.instance_id != task.id:
        raise InvalidSpec(f"{path}: records {trajectory.instance_id}, not {task.id}")
    return RecordedModel(trajectory)


def _file(path: Path, task_id: str) -> Path:
    if path.is_file():
        return path
    name = f"{task_id}.traj.json"
    for candidate in (path / name, path / task_id / name):
        if candidate.is_file():
            return candidate
    raise InvalidSpec(f"{path}: holds no recording of {task_id} ({name})")
