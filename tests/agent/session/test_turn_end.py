"""Tools and model calls at work when a person ends the turn."""

import asyncio

import pytest

from agent.errors import Interrupted, NotSent, TurnEnded
from agent.models.protocol import ModelReply, ModelRequest
from agent.workspaces import Workspace
from flows.experiments.stop import Stop
from tests.agent.session.runs import ASK, Runs, text
from tests.walkthrough.one_attempt import PaidModel

OTHER = ModelRequest([{"role": "user", "content": "?"}, {"role": "user", "content": "No."}])


class SlowModel(PaidModel):
    """A model whose first call never ends by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.left = asyncio.Event(), False

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            self.left = True
        return await super().complete(request)


class PatientModel(PaidModel):
    """A model that never sends its call, as behind a rate limit."""

    def __init__(self, stop: Stop) -> None:
        super().__init__()
        self._stop, self.begun = stop, asyncio.Event()

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.begun.set()
        try:
            await self._stop.sleep(600)
        except Interrupted as error:
            raise NotSent(str(error)) from None
        raise AssertionError("it was not stopped")


async def never(workspace: Workspace) -> str:
    raise AssertionError("it is on record")


@pytest.mark.slow
async def test_a_tool_is_cut_off_for_good(runs: Runs) -> None:
    """Its changes are undone, and a replay has the same end without doing its work again."""
    turn_end, begun = asyncio.Event(), asyncio.Event()

    async def edit(workspace: Workspace) -> str:
        await workspace.run("echo changed > file.txt", timeout_s=60)
        begun.set()
        await workspace.run("sleep 60", timeout_s=60)
        return "done"

    async def end() -> None:
        await begun.wait()
        turn_end.set()

    async with runs.session(turn_end=turn_end) as session:
        ending = asyncio.create_task(end())
        with pytest.raises(TurnEnded, match="a person ended the turn"):
            await session.act("tool", {}, edit, str, ends_with_turn=True)
        await ending
        assert await session.act("read", {}, text, str) == "base\n"
    async with runs.session() as again:
        with pytest.raises(TurnEnded, match="a person ended the turn"):
            await again.act("tool", {}, never, str, ends_with_turn=True)
        assert await again.act("read", {}, never, str) == "base\n"


async def test_a_model_call_is_cut_off_and_booked_as_lost(runs: Runs) -> None:
    """It counts like the call of a dead process, and the next run may ask something else."""
    turn_end, model = asyncio.Event(), SlowModel()
    async with runs.session(model, turn_end=turn_end) as session:
        asking = asyncio.create_task(session.call(ASK))
        await model.begun.wait()
        turn_end.set()
        with pytest.raises(Interrupted, match="ended the turn during a model call"):
            await asking
    assert model.left
    account = runs.journal.account("a")
    assert (account.calls_billed, account.calls_credited, account.billed_usd) == (1, 0, 1.0)
    async with runs.session(PaidModel()) as again:
        assert (await again.call(OTHER)).message["content"] == "1"
    account = runs.journal.account("a")
    assert (account.calls_billed, account.calls_credited, account.billed_usd) == (2, 1, 1.25)


async def test_a_call_that_was_not_sent_is_free(runs: Runs) -> None:
    """It sees the stop before it is cut off, and leaves no bill."""
    stop = Stop()
    model = PatientModel(stop)
    async with runs.session(model, turn_end=stop.turn_end) as session:
        asking = asyncio.create_task(session.call(ASK))
        await model.begun.wait()
        stop.requested = True
        stop.turn_end.set()
        with pytest.raises(NotSent):
            await asking
    assert runs.journal.account("a").calls_billed == 0


async def test_a_call_that_ends_with_the_turn_is_kept(runs: Runs) -> None:
    """An answer that came in time is on record."""
    turn_end = asyncio.Event()

    class Ending(PaidModel):
        async def complete(self, request: ModelRequest) -> ModelReply:
            turn_end.set()
            await asyncio.sleep(0)
            return await super().complete(request)

    async with runs.session(Ending(), turn_end=turn_end) as session:
        assert (await session.call(ASK)).message["content"] == "1"
    assert runs.journal.account("a").calls_credited == 1
