"""Agents that fail, and models that write what is no text: what their cells become."""

from typing import Any

import pytest
from typer.testing import CliRunner

from agent.models.protocol import ModelRequest
from agent.session.session import Session
from agent.types import Outcome, Task
from flows.benchmark import benchmark
from flows.cli.app import app
from flows.display.errors import IncompleteRun
from tests.flows.conftest import trial
from tests.flows.test_budgets import rows

SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

LENGTHS: list[int] = []
"""What the replies of the models were, in each run of the agent."""


async def fails(task: Task, session: Session, options: Any) -> Outcome:
    """Take the reply for a number, which it is not."""
    reply = await session.call(ModelRequest([{"role": "user", "content": "how many?"}]))
    LENGTHS.append(len(reply.message["content"]))
    return Outcome("submitted", str(int(reply.message["content"])))


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
async def test_an_error_that_comes_again_is_an_end(lake_path: str) -> None:
    """The first run cannot know what an error means. The second one ends the attempt by it, since
    all later runs would fail in the same way. The reply is bought once."""
    model = {"provider": "scripted", "replies": ["many"]}
    arm = {"name": "own", "agent": "python", "model": model}
    arm["options"] = {"function": f"{__name__}:fails"}
    arms = [arm, {"name": "gold", "agent": "gold"}]
    experiment = trial(select={"sample": 1}, arms=arms, primary=None)
    with pytest.raises(IncompleteRun):
        await benchmark(experiment, lake_path)
    await benchmark(experiment, lake_path)
    await benchmark(experiment, lake_path)
    [row] = [row for row in rows(lake_path, "attempts") if row["agent"] == "python"]
    assert (row["outcome"], row["model_calls"], len(LENGTHS)) == ("gave_up", 1, 2)
    assert "failed twice in the same way: invalid literal for int()" in row["detail"]


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
async def test_what_is_no_text_can_be_shown(lake_path: str) -> None:
    """The trace of an attempt shows lone surrogates of a model as escapes."""
    written = {"name": "bash", "arguments": r'{"command": "echo \ud800"}'}
    odd = {"tool_calls": [{"id": "a", "type": "function", "function": written}]}
    replies = [odd, {"command": f"echo {SUBMIT}"}]
    arm = {"name": "odd", "agent": "mini", "model": {"provider": "scripted", "replies": replies}}
    arms = [arm, {"name": "gold", "agent": "gold"}]
    await benchmark(trial(select={"sample": 1}, arms=arms, primary=None), lake_path)
    [row] = [row for row in rows(lake_path, "attempts") if row["agent"] == "mini"]
    assert row["outcome"] == "submitted"
    for options in ([], ["--full"]):
        shown = CliRunner().invoke(app, ["trace", row["attempt_id"], "--lake", lake_path, *options])
        assert shown.exit_code == 0
        assert r"echo \ud800" in shown.output
