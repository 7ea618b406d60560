"""Scopes that work at the same time: events, gates, turns in one workspace, and their replay."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.errors import CalledOff, ToolFailed
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest, Usage
from agent.session.limits import Gate
from agent.session.session import Session
from agent.workspaces import Workspace
from tests.agent.session.runs import ASK, Runs, text
from tests.waiting import until

Work = Callable[[Workspace], Awaitable[list[str]]]


async def test_an_event_is_read_once(runs: Runs) -> None:
    """An event returns its first reading in every run. It opens no workspace and takes no time."""
    readings = iter([["b", "a"], ["a", "b"]])

    async def read() -> list[str]:
        return next(readings)

    for _ in range(2):
        async with runs.session() as session:
            assert await session.event("order", {"of": 2}, read, list[str]) == ["b", "a"]
    [step] = session.steps
    assert (step.kind, step.duration_s, step.request) == ("event", 0.0, {"event": "order", "of": 2})
    assert (step.replayed, runs.workspaces.opened) == (True, [])


def writes(name: str) -> Work:
    """Return work that writes a file and returns what changed meanwhile."""

    async def work(workspace: Workspace) -> list[str]:
        before = await workspace.tree()
        await workspace.write(f"{name}.txt", name.encode())
        return [change.path for change in await workspace.changes(since=before)]

    return work


async def reads(workspace: Workspace) -> list[str]:
    listed = await workspace.run("ls", timeout_s=10)
    return listed.output.split()


async def mixed(session: Session) -> list[list[str]]:
    """Write in two scopes and read in three, all at the same time."""
    works = [reads, writes("one"), reads, writes("two"), reads]
    scopes = [session.scope(f"use-{number}") for number in range(len(works))]
    return await asyncio.gather(
        *(
            scope.act("use", {"number": number}, work, list[str])
            for number, (scope, work) in enumerate(zip(scopes, works, strict=True))
        )
    )


async def test_each_of_several_concurrent_steps_has_its_own_changes(runs: Runs) -> None:
    """Steps of one workspace take turns, so that no step is credited with another's change."""
    async with runs.session() as session:
        results = await mixed(session)
        assert (results[1], results[3]) == (["one.txt"], ["two.txt"])
        diff = await session.diff()
    async with runs.session() as session:
        assert await mixed(session) == results
        assert await session.diff() == diff
        assert all(step.replayed for step in session.steps)


@pytest.mark.parametrize("kept", range(1, 6, 2))
async def test_concurrent_steps_resume_after_any_of_them(runs: Runs, kept: int) -> None:
    """The tree after a resume has the changes of all steps, whichever of them were recorded."""

    class Stopped(Exception):
        pass

    def stop_after(count: int) -> Callable[[], None]:
        def may_go_on() -> None:
            nonlocal count
            count -= 1
            if count < 0:
                raise Stopped

        return may_go_on

    if kept < 5:
        with pytest.raises(Stopped):
            async with runs.session(may_go_on=stop_after(kept)) as session:
                await mixed(session)
    async with runs.session() as session:
        results = await mixed(session)
        assert (results[1], results[3]) == (["one.txt"], ["two.txt"])
        found = await session.act("look", {}, reads, list[str])
    assert found == ["file.txt", "one.txt", "two.txt"]


async def test_the_tree_of_the_last_step_is_the_tree_after_a_replay(runs: Runs) -> None:
    """Steps that finished in another order than that of the program leave the same tree."""

    async def both(session: Session, *, in_order: bool) -> None:
        gate = Gate(is_open=in_order)

        async def second() -> None:
            await session.scope("second").act("use", {}, writes("second"), list[str])
            gate.open()

        first = session.scope("first", gate=gate)
        await asyncio.gather(first.act("use", {}, writes("first"), list[str]), second())

    async with runs.session() as session:
        await both(session, in_order=False)
        tree = session.tree
    async with runs.session() as session:
        await both(session, in_order=True)
        assert [step.scope for step in session.steps] == ["first", "second"]
        assert session.tree == tree


async def test_a_gate_holds_back_live_steps_only(runs: Runs) -> None:
    """A recorded step passes a gate that is not open. The next one waits until it opens."""

    async def work(scope: Session) -> None:
        await scope.run("echo 1", timeout_s=10)
        await scope.scope("inside").run("echo 2", timeout_s=10)

    async with runs.session() as session:
        await session.scope("work").run("echo 1", timeout_s=10)
    async with runs.session() as session:
        gate = Gate(is_open=False)
        working = asyncio.create_task(work(session.scope("work", gate=gate)))
        await session.run("echo 3", timeout_s=10)
        assert [step.scope for step in session.steps] == ["work", ""]
        gate.open()
        await working
    assert [step.scope for step in session.steps] == ["work", "", "work/inside"]


class Paid:
    """A model whose answer waits for an event."""

    info = ModelInfo("paid", "scripted")

    def __init__(self) -> None:
        self.asked, self.answer = asyncio.Event(), asyncio.Event()

    def ceiling_usd(self, request: ModelRequest) -> float:
        return 0.25

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.set()
        await self.answer.wait()
        return ModelReply({"role": "assistant", "content": "paid"}, Usage(), "none", "paid")


async def test_a_closed_gate_ends_commands_and_lets_a_paid_call_finish(
    runs: Runs, tmp_path: Path
) -> None:
    """A command in flight is ended and undone. A call is recorded. Nothing further begins."""
    model, sign = Paid(), tmp_path / "begun"

    async def asks(scope: Session) -> None:
        await scope.call(ASK)
        await scope.run("echo never >> file.txt", timeout_s=10)

    async with runs.session(model) as session:
        gate = Gate()
        asking = asyncio.create_task(asks(session.scope("asks", gate=gate)))
        long = session.scope("runs", gate=gate).run(
            f"echo x >> file.txt; touch {sign}; sleep 600", timeout_s=900
        )
        running = asyncio.create_task(long)
        await model.asked.wait()
        await until(sign.exists)
        gate.close("its sibling failed")
        with pytest.raises(CalledOff, match="its sibling failed"):
            await running
        model.answer.set()
        with pytest.raises(CalledOff):
            await asking
        assert await session.act("read", {}, text, str) == "base\n"
    assert [(step.scope, step.kind) for step in session.steps] == [
        ("asks", "model"),
        ("", "action"),
    ]


async def test_a_failed_tool_fails_again_on_a_replay(runs: Runs) -> None:
    """A failure that ends the attempt is recorded, so that the tool is not used again."""
    used = 0

    async def fail(workspace: Workspace) -> Any:
        nonlocal used
        used += 1
        raise ToolFailed("the licence has expired")

    for _ in range(2):
        async with runs.session() as session:
            with pytest.raises(ToolFailed, match="the licence has expired"):
                await session.act("tool", {}, fail, str)
    assert used == 1
