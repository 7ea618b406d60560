"""Tools at work when a person ends the turn."""

import asyncio

import pytest

from agent.errors import TurnEnded
from agent.workspaces.protocol import Workspace
from tests.agent.session.runs import Runs, text


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


@pytest.mark.slow
async def test_other_work_is_finished(runs: Runs) -> None:
    """Only tools of a conversation end with the turn: no other work could handle it."""
    turn_end = asyncio.Event()
    turn_end.set()
    async with runs.session(turn_end=turn_end) as session:
        assert await session.act("read", {}, text, str) == "base\n"
        with pytest.raises(TurnEnded):
            await session.act("tool", {}, text, str, ends_with_turn=True)
