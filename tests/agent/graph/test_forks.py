"""An attempt's graph says which calls a fork with an edited result buys."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent import models
from agent.arms import ARMS, ArmKind
from agent.graph import ExecutionStateGraph
from agent.graph.attempt import graph_of
from agent.journal import Attempt, Journal, RecordedStep
from agent.models.protocol import ModelReply, ModelRequest
from agent.models.simulated import SimulatedModel
from agent.session.reuse import Origins, Reuse, Rules
from agent.session.steps import canonical
from tests.agent.arms.durable.conftest import FILES, QUICK, REFERENCE, TASK
from tests.agent.attempts import open_session
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

OPTIONS: dict[str, tuple[ArmKind, dict[str, Any]]] = {
    "full": ("durable", {"profile": {"preset": "full", "test_command": QUICK}}),
    "lean": ("durable", {"profile": {"preset": "lean", "test_command": QUICK}}),
    "staged": ("staged", {}),
    "loop": ("loop", {}),
    "mini": ("mini", {}),
    "mini_retry": ("mini_retry", {}),
}
_NAMES = {"tests", "regression_tests", "related_tests", "targets", "anchor_path", "path"}

Work = Callable[[str, str, Reuse | None], Awaitable[list[RecordedStep]]]


def alter(value: Any, mark: str) -> Any:
    """Return an answer with a mark in every sentence, but in no path."""
    match value:
        case str():
            return f"{value} {mark}" if " " in value else value
        case list():
            return [alter(item, mark) for item in value]
        case dict():
            return {k: v if k in _NAMES else alter(v, mark) for k, v in value.items()}
    return value


def alter_message(message: Mapping[str, Any], mark: str) -> dict[str, Any]:
    altered = json.loads(json.dumps({**message, "content": f"{message['content']} {mark}"}))
    for call in altered.get("tool_calls") or ():
        if call["function"]["name"] == "answer":
            arguments = alter(json.loads(call["function"]["arguments"]), mark)
            call["function"]["arguments"] = json.dumps(arguments)
    return dict(altered)


@pytest.fixture(autouse=True)
def attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the simulated model say something else as soon as its prompt differs."""
    answer = SimulatedModel._answer

    def answer_otherwise(self: SimulatedModel, request: ModelRequest) -> ModelReply:
        reply = answer(self, request)
        text = json.dumps([request.role, request.messages], sort_keys=True)
        mark = f"mark{hashlib.sha256(text.encode()).hexdigest()[:10]}"
        return replace(reply, message=alter_message(reply.message, mark))

    monkeypatch.setattr(SimulatedModel, "_answer", answer_otherwise)


def get_content(step: RecordedStep) -> Any:
    result = json.loads(step.result or b"{}")
    return result.get("message", result.get("output", result.get("content")))


def edit(step: RecordedStep) -> Rules:
    """Return the rules of a fork in which a step has another text."""
    result = json.loads(step.result or b"{}")
    if step.kind == "model":
        result["message"] = alter_message(result["message"], "edited")
    else:
        result["output"] += "\nedited by hand"
    return Rules({step.place: canonical(result).decode()})


def choose(steps: list[RecordedStep]) -> list[RecordedStep]:
    """Return the first call, one in the middle, one of the last, and a command, if there is one."""
    calls = [step for step in steps if step.kind == "model"]
    commands = [step for step in steps if step.kind == "command"]
    return [calls[0], calls[len(calls) // 2], calls[-2], *commands[1:2]]


def find_used(
    graph: ExecutionStateGraph, step: RecordedStep, steps: list[RecordedStep]
) -> set[str]:
    """Return the steps whose results a call holds: those of its conversation, and their sources."""
    talk = [s.place for s in steps if s.scope == step.scope and s.ordinal < step.ordinal]
    return {*talk, *(name for one in [*talk, step.place] for name in graph.get_flows(one))}


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """Return a function that lets an arm work on a task, as a fork if it reuses steps."""
    journal = Journal.open(f"sqlite:///{tmp_path}/journal.sqlite")
    workspaces = HostWorkspaces(with_files(FILES))  # prompts hold its path
    task = replace(TASK, reference_patch=REFERENCE)
    spec = models.parse({"provider": "simulated", "skill": 0.4, "malformed": 0, "prose": 0})

    async def run(name: str, arm: str, reuse: Reuse | None) -> list[RecordedStep]:
        agent, options = OPTIONS[arm]
        journal.start(Attempt(name, "e", arm, task.id, 0, "{}", reuse and reuse.parent_id))
        given = {"workspaces": workspaces, "origins": Origins({"": "model"}, "place")}
        model = models.build(spec, task, 0)
        async with open_session(journal, tmp_path, model, name, reuse=reuse, **given) as session:
            await ARMS[agent].solve(task, session, ARMS[agent].options(**options))
        return sorted(journal.steps(name), key=lambda step: step.ordinal)

    return run


@pytest.mark.parametrize("arm", OPTIONS)
async def test_a_fork_buys_the_calls_that_are_stale(arm: str, work: Work) -> None:
    """A call is bought if and only if a step that it uses has another result, and each is stale."""
    steps = await work("parent", arm, None)
    for number, edited in enumerate(choose(steps)):
        reuse = Reuse("parent", steps, edit(edited))
        after = {step.place: step for step in await work(f"fork-{number}", arm, reuse)}
        differs = {
            step.place
            for step in steps
            if step.place not in after or get_content(step) != get_content(after[step.place])
        }
        assert edited.place in differs
        graph = graph_of(steps)
        stale = set(graph.mark_stale([edited.place]))
        for step in steps:
            if step.kind != "model" or step.place not in after or step is edited:
                continue
            is_bought = not after[step.place].copied
            is_stale = not differs.isdisjoint(find_used(graph, step, steps))
            assert is_bought == is_stale, f"{step.place} after an edit of {edited.place}"
            assert step.place in stale or not is_bought, step.place
