"""Agents that fail, and models that write what is no text: what their cells become."""

from typing import Any

import pytest

from agent.models.protocol import ModelRequest
from agent.session.session import Session
from agent.types import Outcome, Task
from flows.benchmark import benchmark
from flows.display.errors import IncompleteRun
from tests.flows.conftest import rows, trial

LENGTHS: list[int] = []
"""What the replies of the models were, in each run of the agent."""


async def fails(task: Task, session: Session, options: Any) -> Outcome:
    """Take the reply for a number, which it is not."""
    reply = await session.call(ModelRequest([{"role": "user", "content": "how many?"}]))
    LENGTHS.append(len(reply.message["content"]))
    return Outcome("submitted", str(int(reply.message["content"])))


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
@pytest.mark.full
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
