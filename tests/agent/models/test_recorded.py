"""The recorded model gives the replies of an earlier run, with their tokens and costs."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import InvalidSpec, ModelError
from agent.models.protocol import ModelRequest, Usage
from agent.models.recorded import for_task
from agent.models.spec import RecordedSpec
from agent.models.trajectory import load
from agent.types import Task
from tests.agent.models.mini_runs import COMMANDS, run
from tests.servers import openai_server as api

REQUEST = ModelRequest([{"role": "user", "content": "anything"}])


def task(name: str = "demo__one") -> Task:
    return Task(name, "It is broken.", "0" * 40, "")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a recording with a reply without an action, followed by every command."""
    replies = [api.text("I think."), *map(api.command, COMMANDS)]
    return run(tmp_path / "demo__one", replies, monkeypatch)


async def test_calls_are_replayed_in_order_and_end(path: Path) -> None:
    """Replayed messages, tokens and costs are the recorded ones. Then the model fails."""
    recording = load(path)
    model = for_task(RecordedSpec(provider="recorded", path=path), task())
    replies = [
        await model.complete(replace(REQUEST, number=n)) for n in range(len(recording.calls))
    ]
    assert [reply.message for reply in replies] == [call.message for call in recording.calls]
    assert {reply.cost_source for reply in replies} == {"recorded"}
    total = sum((reply.usage for reply in replies), Usage())
    assert total.cost_usd == pytest.approx(recording.instance_cost_usd)
    assert replies[1].message["tool_calls"][0]["function"]["name"] == "bash"
    assert (model.info.name, model.info.native_tools) == ("openai/gpt-4o", True)
    for folder in (path.parent, path.parent.parent):  # both layouts
        assert for_task(RecordedSpec(provider="recorded", path=folder), task()).info == model.info
    with pytest.raises(InvalidSpec, match="records demo__one, not demo__two"):
        for_task(RecordedSpec(provider="recorded", path=path), task("demo__two"))
    with pytest.raises(ModelError, match="ended after 5 calls") as caught:
        await model.complete(replace(REQUEST, number=len(recording.calls)))
    assert not caught.value.retryable
