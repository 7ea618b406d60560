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
    with pytest.raises(ModelError, match="ended after 5 calls") as caught:
        await model.complete(replace(REQUEST, number=len(recording.calls)))
    assert not caught.value.retryable


async def test_an_unknown_cost_stays_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replaying a call does not make it free."""
    replies = [api.command(text) for text in COMMANDS[2:]]
    path = run(tmp_path, replies, monkeypatch, name="openai/nobody-has-this")
    model = for_task(RecordedSpec(provider="recorded", path=path), task())
    reply = await model.complete(REQUEST)
    assert (reply.usage.cost_usd, reply.cost_source) == (None, "unknown")


def test_a_folder_is_searched_in_both_layouts(path: Path) -> None:
    """The recording is found as `<id>.traj.json`, as `<id>/<id>.traj.json`, or by its own path."""
    for place in (path, path.parent, path.parent.parent):
        spec = RecordedSpec(provider="recorded", path=place)
        info = for_task(spec, task()).info
        assert (info.name, info.provider, info.native_tools) == ("openai/gpt-4o", "recorded", True)


def test_a_recording_of_another_task_is_refused(path: Path) -> None:
    """A recording of another task is refused, because its commands do not fit."""
    spec = RecordedSpec(provider="recorded", path=path)
    with pytest.raises(InvalidSpec, match="records demo__one, not demo__two"):
        for_task(spec, task("demo__two"))
