"""The mini arm: mini-swe-agent's own agent over a session."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from agent.arms.options import MiniOptions
from agent.errors import InfrastructureError, ModelError
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest
from tests.agent.arms.conftest import SUBMISSION, Solver
from tests.waiting import until

SUBMIT = [{"command": command} for command in SUBMISSION]


def scripted(*replies: Any, **more: Any) -> dict[str, Any]:
    return {"provider": "scripted", "replies": list(replies), **more}


async def test_a_submission_is_the_patch(solve: Solver) -> None:
    """The patch is the output of the submit command after its first line."""
    outcome, session = await solve(scripted(*SUBMIT))
    assert outcome.status == "submitted"
    assert outcome.detail == "Submitted"
    assert outcome.patch.endswith("-goodbye\n+hello\n")
    assert [step.kind for step in session.steps] == ["model", "command"] * 3


async def test_prompts_are_the_packages_own_with_the_real_path(solve: Solver) -> None:
    """The first messages are the package's SWE-bench prompts with the repository's path."""
    _, session = await solve(scripted(*SUBMIT))
    system, user = session.steps[0].request["messages"]
    assert system["content"].startswith("You are a helpful assistant")
    assert "say hello" in user["content"]
    assert "/testbed" not in user["content"]
    assert session.workspaces.root in user["content"]


async def test_a_reply_without_a_tool_call_is_answered_with_guidance(solve: Solver) -> None:
    """The package's format error is sent to the model, and the attempt continues."""
    outcome, session = await solve(scripted("I am done.", *SUBMIT))
    assert outcome.status == "submitted"
    assert "Tool call error" in session.steps[1].request["messages"][-1]["content"]


async def test_the_step_limit_ends_the_attempt(solve: Solver) -> None:
    """The limit counts model calls."""
    replies = [{"command": "true"}] * 5
    outcome, session = await solve(scripted(*replies), options=MiniOptions(step_limit=2))
    assert (outcome.status, outcome.patch) == ("out_of_steps", "")
    assert len([step for step in session.steps if step.kind == "model"]) == 2


async def test_a_command_timeout_is_reported_to_the_model(solve: Solver) -> None:
    """The model gets mini-swe-agent's message about the timeout, and the attempt continues."""
    options = MiniOptions(command_timeout_s=0.5)
    outcome, session = await solve(scripted({"command": "sleep 30"}, *SUBMIT), options=options)
    assert outcome.status == "submitted"
    observation = session.steps[2].request["messages"][-1]["content"]
    assert "timed out after 0.5 seconds" in observation


async def test_a_destroyed_repository_is_reported_to_the_model(solve: Solver) -> None:
    """The repository is restored and the attempt continues, because the agent is at fault."""
    outcome, session = await solve(scripted({"command": "rm -rf .git"}, *SUBMIT))
    assert outcome.status == "submitted"
    assert outcome.patch
    observation = session.steps[2].request["messages"][-1]["content"]
    assert "Everything was put back" in observation


class BrokenModel:
    """A model that is unreachable."""

    info = ModelInfo("broken", "litellm")

    def ceiling_usd(self, request: ModelRequest) -> float:
        return 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        raise ModelError("no route to the model", retryable=True)


async def test_broken_infrastructure_is_raised(solve: Solver) -> None:
    """An infrastructure error is neither an outcome nor an empty patch."""
    with pytest.raises(InfrastructureError, match="no route"):
        await solve(BrokenModel())


async def test_cancelling_ends_the_agents_thread(solve: Solver) -> None:
    """A cancelled attempt leaves no thread that could make further calls."""
    calls = 0

    class SlowModel(BrokenModel):
        async def complete(self, request: ModelRequest) -> ModelReply:
            nonlocal calls
            calls += 1
            await asyncio.sleep(60)
            raise AssertionError("was not cancelled")

    attempt = asyncio.create_task(solve(SlowModel()))
    await until(lambda: calls)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(attempt, timeout=10)
    assert calls == 1


def test_the_baseline_loads_nothing_of_other_agents() -> None:
    """Tools, the index with its grammars and conversations cost it neither time nor memory."""
    code = "import sys, agent.arms, agent.arms.mini; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    names = loaded.stdout.splitlines()
    assert "minisweagent" in names
    assert not {"agent.tools", "agent.index", "agent.capabilities", "tree_sitter"} & {*names}
