"""Steps that nothing outside depends on yet are written with the next intent."""

import asyncio
from typing import Any

import pytest

from agent.errors import FencedError
from agent.journal.holding import worker
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest, Usage
from agent.session import log
from agent.session.steps import ActionResult, Contact, digest
from agent.workspaces import Workspace
from tests.agent.session.runs import ASK, Runs


class Watching:
    """A model that keeps what the journal has when a call is sent."""

    info = ModelInfo("watching", "scripted")

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.seen: list[list[str]] = []

    def ceiling_usd(self, request: ModelRequest) -> float:
        return 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.seen.append(kinds(self._runs))
        message = {"role": "assistant", "content": "done"}
        return ModelReply(message, Usage(cost_usd=0.0), "declared", "watching")


def kinds(runs: Runs) -> list[str]:
    """Return the kinds of the attempt's recorded and intended steps, in their order."""
    return [step.kind for step in sorted(runs.journal.steps("a"), key=lambda step: step.ordinal)]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let steps wait for a write without a limit."""
    monkeypatch.setattr(log, "HOLD_S", 3600.0)


async def run(session: Any) -> None:
    await session.run("true", timeout_s=10)


@pytest.mark.usefixtures("held")
async def test_a_command_is_written_with_the_intent_of_the_next_call(runs: Runs) -> None:
    """The call is sent when both are in the journal."""
    model = Watching(runs)
    async with runs.session(model) as session:
        await run(session)
        assert kinds(runs) == []
        await session.call(ASK)
    assert model.seen == [["command", "model"]]


@pytest.mark.usefixtures("held")
async def test_an_action_outside_of_the_workspace_is_written_at_once(runs: Runs) -> None:
    """Nothing undoes its effects before it would be repeated."""

    async def act(left_s: float) -> ActionResult:
        return ActionResult(None)

    async with runs.session() as session:
        scope = session.scope("outside")
        await scope.step_at(Contact("action", digest(b"{}"), {}, act), 0)
        assert kinds(runs) == ["action"]


@pytest.mark.usefixtures("held")
async def test_concurrent_calls_wait_for_the_command_that_they_may_depend_on(runs: Runs) -> None:
    """No call overtakes the write that another one makes."""
    model = Watching(runs)
    async with runs.session(model) as session:
        scopes = [session.scope(f"scope-{number}") for number in range(4)]
        await run(session)
        await asyncio.gather(*(scope.call(ASK) for scope in scopes))
    assert [seen[0] for seen in model.seen] == ["command"] * 4


@pytest.mark.usefixtures("held")
async def test_no_other_step_begins_before_it_is_written(runs: Runs) -> None:
    """A command may have effects outside that depend on the result before it."""

    async def look(workspace: Workspace) -> list[str]:
        return kinds(runs)

    async with runs.session() as session:
        await run(session)
        assert await session.act("look", {}, look, list[str]) == ["command"]
        await run(session)

        async def read() -> list[str]:
            return kinds(runs)

        assert await session.event("look", {}, read, list[str]) == ["command", "action", "command"]
        await run(session)
        assert kinds(runs) == ["command", "action", "command", "event"]


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("is_failing", [True, False])
async def test_the_end_of_an_attempt_writes_it(runs: Runs, *, is_failing: bool) -> None:
    """Also an end by an error, which is the one that is raised."""
    try:
        async with runs.session() as session:
            await run(session)
            if is_failing:
                raise LookupError
    except LookupError:
        assert is_failing
    assert kinds(runs) == ["command"]


@pytest.mark.usefixtures("held")
async def test_a_worker_that_lost_its_lease_writes_nothing(runs: Runs) -> None:
    """The end of the attempt raises the error."""

    async def lose_the_lease() -> None:
        async with runs.session() as session:
            await run(session)
            runs.journal.expire("a", worker())
            runs.journal.acquire("a", "other", 60)

    with pytest.raises(FencedError):
        await lose_the_lease()
    assert kinds(runs) == []
