"""The forecast of a selective fork: which steps may come out otherwise."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from agent.journal import Attempt, Inputs, RecordedStep
from agent.session.reuse import Rules
from agent.session.session import BASE
from flows.experiments.declaration import parse
from flows.experiments.selective import Selective
from flows.storage.lake import Lake

EXPERIMENT = parse(
    {
        "name": "trial",
        "model": {"provider": "simulated", "skill": 1},
        "arms": [{"name": "loop", "agent": "loop"}, {"name": "gold", "agent": "gold"}],
    },
    "trial.yaml",
)
MESSAGE = {"n": 1, "kind": "say", "text": "stop"}


def event(name: str, content: Any) -> RecordedStep:
    result = json.dumps({"content": content}).encode()
    asked, now = json.dumps({"event": name}).encode(), datetime.now(UTC)
    return RecordedStep("work", 0, "event", "d", asked, result, 0.0, now, 0.0, None)


@pytest.mark.parametrize(
    ("step", "kept"),
    [
        (event("deliver", [0]), 2),
        (event("inbox", []), 2),
        (event("inbox", [MESSAGE]), 1),
    ],
)
def test_events_of_programs_come_out_the_same_and_messages_do_not(
    step: RecordedStep, kept: int, tmp_path: Any
) -> None:
    """Programs and subagents follow from the steps before them. A fork gets no messages."""
    now = datetime.now(UTC)
    inputs = Inputs(BASE, "same")
    look = RecordedStep("work", 1, "action", "d", b"{}", b"{}", 0.0, now, 0.0, None, inputs=inputs)
    parent = Attempt("a", "trial", "loop", "instance", 0, "{}")
    lake = Lake.open(tmp_path)
    fork = Selective(lake, parent, [look, step], EXPERIMENT, EXPERIMENT, Rules())
    assert fork.first_changed == kept
