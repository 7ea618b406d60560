"""Replay of the model calls of mini-swe-agent's trajectories in a real workspace."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicToolcallModel, make_toolcall_output

from agent.models import trajectory
from tests.agent.arms.conftest import SUBMISSION, TASK, Solver, make_repository


@pytest.fixture
def recorded_by_the_package(tmp_path: Path) -> Path:
    """Return a trajectory with tool calls that the package's own agent has written."""
    make_repository(tmp_path / "repo")
    outputs = []
    for number, command in enumerate(SUBMISSION):
        arguments = json.dumps({"command": command})
        call = {"id": f"c{number}", "type": "function"}
        call["function"] = {"name": "bash", "arguments": arguments}  # type: ignore[assignment]
        action = {"command": command, "tool_call_id": f"c{number}"}
        outputs.append(make_toolcall_output("next", [call], [action]))
    model = DeterministicToolcallModel(outputs=outputs, cost_per_call=0.25)
    environment = LocalEnvironment(cwd=str(tmp_path / "repo"))
    path = tmp_path / f"{TASK.id}.traj.json"
    agent = DefaultAgent(
        model, environment, system_template="", instance_template="", output_path=path, cost_limit=0
    )
    agent.run(TASK.statement)
    return path


async def test_a_tool_call_recording_gives_the_same_patch(
    solve: Solver, recorded_by_the_package: Path
) -> None:
    """Running the recorded commands again gives the submitted patch."""
    outcome, session = await solve({"provider": "recorded", "path": str(recorded_by_the_package)})
    recording = trajectory.load(recorded_by_the_package)
    assert recording.submission
    assert outcome.patch == recording.submission
    assert session.model().info.native_tools
    replies = [step.result for step in session.steps if step.kind == "model"]
    assert [reply.usage.cost_usd for reply in replies] == [
        call.usage.cost_usd for call in recording.calls
    ]


@pytest.mark.parametrize(
    "name",
    [
        "django__django-11163",
        "mwaskom__seaborn-3187",
    ],
)
async def test_a_text_recording_replays_every_call_with_its_price(
    solve: Solver, shared_data: Path, name: str
) -> None:
    """A real trajectory of version 1 is replayed with all its calls, costs and commands."""
    path = shared_data / "mini_trajectories" / f"{name}.traj.json"
    spec = {"provider": "recorded", "path": str(path)}
    _, session = await solve(spec, task=replace(TASK, id=name))
    recording = trajectory.load(path)
    replies: list[Any] = [step.result for step in session.steps if step.kind == "model"]
    assert not session.model().info.native_tools
    assert len(replies) == recording.api_calls
    total = sum(reply.usage.cost_usd for reply in replies)
    assert total == pytest.approx(recording.instance_cost_usd)
    ran = [step.request["command"] for step in session.steps if step.kind == "command"]
    assert ran == [command.command for command in recording.commands]
