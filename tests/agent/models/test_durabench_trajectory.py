"""Our own attempts as recordings: written, read, and replayed by scope and number."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ContextWindowExceeded, InvalidSpec, ModelError, OutOfTime
from agent.models.protocol import ModelReply, ModelRequest, Usage
from agent.models.recorded import FORMAT, RecordedEnd, RecordedModel, ScopedReply, for_task, to_json
from agent.models.spec import RecordedSpec
from agent.types import Task
from tests.agent.models.role_talk import request
from tests.agent.models.simulations import complete, simulated

TASK = Task("demo__one", "It is broken.", "0" * 40, "")
PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = '\udce4'\n+a = 2\n"
FACTS = {"task": TASK.statement}
QUESTIONS = [
    ("", "contract"),
    ("", "planner"),
    ("step-1/candidate-0", "implementer"),
    ("step-1/candidate-1", "implementer"),
    ("step-1/candidate-0", "step_reviewer"),
    ("", "planner"),
]


def write(
    path: Path, replies: list[ScopedReply], ends: Iterable[RecordedEnd] = (), **fields: Any
) -> Path:
    options = {"instance_id": TASK.id, "model": "openai/x", "native_tools": True, **fields}
    path.write_text(to_json(replies, list(ends), **options))
    return path


def replay(path: Path) -> RecordedModel:
    return for_task(RecordedSpec(provider="recorded", path=path), TASK)


@pytest.fixture
def replies() -> list[ScopedReply]:
    """Return an attempt's replies in their order in time, with parallel scopes interleaved."""
    model = simulated(PATCH, malformed=0.3)
    return [
        ScopedReply(scope, role, complete(model, request(role, FACTS, scope=scope, number=n)))
        for n, (scope, role) in enumerate(QUESTIONS)
    ]


@pytest.mark.parametrize(
    ("why", "error"), [("time", OutOfTime), ("too_long", ContextWindowExceeded)]
)
async def test_a_scope_that_was_cut_off_is_cut_off_again(
    tmp_path: Path, replies: list[ScopedReply], why: Any, error: type[Exception]
) -> None:
    """A scope ends after its last reply with the recorded error. Other scopes are unaffected."""
    model = replay(
        write(tmp_path / "a.json", replies, [RecordedEnd(scope="", why=why, text="no more")])
    )
    assert await model.complete(ModelRequest([], role="planner", scope="", number=2))
    with pytest.raises(error, match="no more"):
        await model.complete(ModelRequest([], role="planner", scope="", number=3))
    with pytest.raises(ModelError, match="ended after 2 calls in scope"):
        await model.complete(
            ModelRequest([], role="implementer", scope="step-1/candidate-0", number=2)
        )


async def test_each_scope_gets_its_answers_in_its_own_order(
    tmp_path: Path, replies: list[ScopedReply]
) -> None:
    """A replayed reply has the recorded message, tokens and cost, in any order of requests."""
    model = replay(write(tmp_path / "a.json", replies))
    places = [("step-1/candidate-0", 1, 4), ("", 2, 5), ("step-1/candidate-0", 0, 2), ("", 0, 0)]
    for scope, number, at in places:
        asked = ModelRequest([], role=replies[at].role, scope=scope, number=number)
        reply, recorded = await model.complete(asked), replies[at].reply
        assert (reply.message, reply.usage) == (recorded.message, recorded.usage)
        assert (reply.finish_reason, reply.cost_source) == (recorded.finish_reason, "recorded")
        assert model.ceiling_usd(asked) == recorded.usage.cost_usd


async def test_a_reply_of_another_role_is_an_error(
    tmp_path: Path, replies: list[ScopedReply]
) -> None:
    """A reply recorded for another role is refused, because the arm must have changed since."""
    model = replay(write(tmp_path / "a.json", replies))
    with pytest.raises(ModelError, match="answer of role 'contract' where 'brief' is asked"):
        await model.complete(ModelRequest([], role="brief"))


async def test_an_unknown_cost_stays_unknown(tmp_path: Path) -> None:
    """Replaying a call does not make it free."""
    usage = Usage(input_tokens=7, cost_usd=None)
    reply = ModelReply({"role": "assistant", "content": "hi"}, usage, "unknown", "x")
    model = replay(write(tmp_path / "a.json", [ScopedReply("", "", reply)]))
    again = await model.complete(ModelRequest([]))
    assert (again.usage, again.cost_source) == (usage, "unknown")


def test_a_replay_names_the_recorded_model(tmp_path: Path) -> None:
    """A replay has the recorded model's name and protocol, and finds its file in a folder."""
    write(tmp_path / "demo__one.traj.json", [], native_tools=False)
    info = replay(tmp_path).info
    assert (info.name, info.provider, info.native_tools) == ("openai/x", "recorded", False)


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"calls": [{"scope": ""}]}, "calls.0.number"), ({"model": None}, "model"), ({}, "calls")],
)
def test_a_damaged_file_is_reported_in_one_line(
    fields: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """The error names the file and the field in one line."""
    path = tmp_path / "a.json"
    whole = {"format": FORMAT, "instance_id": TASK.id, "model": "x", "native_tools": True}
    path.write_text(json.dumps({**whole, **fields}))
    with pytest.raises(InvalidSpec, match=words) as caught:
        replay(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
