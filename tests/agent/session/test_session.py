"""Scopes, branches, replay and time limits of a session."""

import asyncio
import time
from typing import Any

import pytest

from agent.arms.durable.implementation import together
from agent.errors import ContextWindowExceeded, OutOfTime, Undone
from agent.journal import Attempt
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest, Usage
from agent.session.session import Session
from agent.workspaces import Workspace
from tests.agent.session.runs import ASK, Runs, scripted, text


async def candidates(session: Session) -> list[str]:
    """Work in two branches from the same tree at the same time, and take the second one's tree."""
    await session.run("echo common >> file.txt", timeout_s=10)
    start = session.tree

    async def work(number: int) -> str:
        async with session.branch(f"candidate-{number}", start) as branch:
            reply = await branch.call(ASK)
            await branch.run(f"echo {reply.message['content']}-{number} >> file.txt", timeout_s=10)
            return branch.tree

    trees = await together(work(number) for number in range(2))
    await session.take(trees[1])
    return [await session.act("read", {}, text, str), await session.diff()]


async def test_branches_work_side_by_side_from_one_tree(runs: Runs) -> None:
    """Branches have their own workspace, steps and conversation. Taking one adopts its tree."""
    async with runs.session() as session:
        content, diff = await candidates(session)
    assert content == "base\ncommon\none-1\n"
    assert "+one-1" in diff
    assert {step.scope for step in session.steps} == {"", "candidate-0", "candidate-1"}
    assert sorted(runs.workspaces.opened) == ["", "candidate-0", "candidate-1"]


@pytest.mark.slow
@pytest.mark.parametrize("kept", range(1, 9, 3))
async def test_a_run_that_is_stopped_anywhere_can_be_resumed(runs: Runs, kept: int) -> None:
    """An attempt that is stopped after any number of steps has the same result once resumed."""

    class Stopped(Exception):
        pass

    def may_go_on() -> None:
        nonlocal kept
        if kept == 0:
            raise Stopped
        kept -= 1

    async def stopped() -> None:
        async with runs.session(may_go_on=may_go_on) as session:
            await candidates(session)
            raise Stopped

    with pytest.raises(Stopped):
        await stopped()
    async with runs.session() as session:
        content, _ = await candidates(session)
    assert content == "base\ncommon\none-1\n"


async def test_a_scope_cannot_be_opened_twice(runs: Runs) -> None:
    """A second scope of the same name is refused, because its steps would not be its own."""
    async with runs.session() as session:
        session.scope("plan")
        with pytest.raises(ValueError, match="was used before"):
            session.scope("plan")


async def test_a_fork_replays_its_prefix_for_any_request(runs: Runs) -> None:
    """A fork replays its prefix even for a changed prompt. Later requests go to the model."""
    async with runs.session() as session:
        await session.call(ASK)
        await session.call(ASK)
    runs.journal.fork("a", Attempt("b", "experiment", "arm", "instance", 0, "{}"), "", 1)
    runs.attempt_id = "b"
    other = ModelRequest([{"role": "user", "content": "Please?"}])
    async with runs.session(scripted("four", "five")) as session:
        replies = [(await session.call(other)).message["content"] for _ in range(2)]
    assert replies == ["one", "five"]


class Slow:
    """A model that answers after a minute and records whether it was cut off."""

    info = ModelInfo("slow", "scripted")
    cut_off = False

    def ceiling_usd(self, request: ModelRequest) -> float:
        return 0.25

    async def complete(self, request: ModelRequest) -> ModelReply:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cut_off = True
            raise
        return ModelReply({"role": "assistant"}, Usage(), "none", "slow")


async def limited(session: Session, kind: str) -> list[str]:
    """Run out of time in a command, an action or a call, and return what was observed."""
    seen = []
    await session.run("true", timeout_s=10)  # opens the workspace before the time begins
    phase = session.scope("phase", limit_s=0.5)
    try:
        if kind == "command":
            await phase.run("sleep 60", timeout_s=120)
        elif kind == "action":
            await phase.act("slow", {}, lambda w: w.run("sleep 60", timeout_s=120), Any)
        else:
            await phase.call(ASK)
    except OutOfTime as error:
        seen.append(str(error))
    try:
        await phase.run("echo never", timeout_s=10)
    except OutOfTime:
        seen.append("not begun")
    seen.append((await session.run("cat file.txt", timeout_s=10)).output)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["command", "action", "model"])
async def test_a_time_limit_ends_what_is_running(runs: Runs, kind: str) -> None:
    """A time limit cuts off commands and calls and prevents later steps. A replay does the same."""
    model, clock = Slow(), time.monotonic()
    async with runs.session(model) as session:
        first = await limited(session, kind)
    assert time.monotonic() - clock < 10
    assert first == ["phase has used its 0.5 s", "not begun", "base\n"]
    assert model.cut_off == (kind == "model")
    async with runs.session(model) as session:
        assert await limited(session, kind) == first
    # The cost of a call that was cut off is unknown, so it is billed at its reservation.
    assert runs.journal.account("a").billed_usd == (0.25 if kind == "model" else 0)


class Small:
    """A model that refuses every request and counts them."""

    info = ModelInfo("small", "scripted")
    asked = 0

    def ceiling_usd(self, request: ModelRequest) -> float:
        return 0.25

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked += 1
        raise ContextWindowExceeded("4097 tokens are too many")


async def test_a_refused_conversation_stays_refused_and_costs_nothing(runs: Runs) -> None:
    """A refused request is refused again on resuming, without a call to a model."""
    model = Small()
    for _ in range(2):
        async with runs.session(model) as session:
            with pytest.raises(ContextWindowExceeded, match="too many"):
                await session.call(ASK)
            await session.run("echo then", timeout_s=10)
    assert model.asked == 1
    account = runs.journal.account("a")
    assert (account.billed_usd, account.calls_billed) == (0, 0)


DESTRUCTION = "echo lost >> file.txt && rm -rf .git"


@pytest.mark.parametrize("kind", ["command", "action"])
async def test_a_destroyed_repository_is_restored(runs: Runs, kind: str) -> None:
    """The step reports that the repository was restored, also in a replay, and work continues."""

    async def by_hand(workspace: Workspace) -> str:
        await workspace.run(DESTRUCTION, timeout_s=10)
        return await workspace.tree()

    async def destroy(session: Session) -> None:
        if kind == "command":
            await session.run(DESTRUCTION, timeout_s=10)
        else:
            await session.act("destroy", {}, by_hand, str)

    for _ in range(2):
        runs.workspaces.opened.clear()
        async with runs.session() as session:
            await session.run("echo kept >> file.txt", timeout_s=10)
            with pytest.raises(Undone, match=r"not a git repository .* was put back"):
                await destroy(session)
            assert await session.act("read", {}, text, str) == "base\nkept\n"
            assert "+kept" in await session.diff()
    assert runs.workspaces.opened == []


class Asking:
    """A model whose server lists another window each day."""

    def __init__(self, *windows: int) -> None:
        windows_of_days = iter(windows)

        async def ask() -> int:
            return next(windows_of_days)

        self.info = ModelInfo("m", "litellm", ask_for_window=ask)


async def test_a_window_that_a_server_stated_stays_with_the_attempt(runs: Runs) -> None:
    """A conversation that is resumed is shortened as before, although the server has changed."""
    for windows in ([8192], [4096]):
        async with runs.session(Asking(*windows)) as session:
            assert await session.find_window() == 8192
            assert session.steps[0].kind == "event"


async def test_a_conversation_that_began_without_a_window_goes_on_without(runs: Runs) -> None:
    """Its first step is recorded already."""
    async with runs.session() as session:
        await session.call(ASK)
    async with runs.session(Asking(8192)) as session:
        assert await session.find_window() is None


async def test_an_attempt_in_flight_moves_to_new_code(runs: Runs) -> None:
    """Where an attempt has gone on by old code, it stays with it."""

    async def old(session: Session) -> list[str]:
        await session.call(ASK)
        part = session.scope("part")
        await part.run("echo old-1 >> file.txt", timeout_s=10)
        return []

    async def new(session: Session) -> list[bool]:
        await session.call(ASK)
        first = await session.is_patched("first")
        part = session.scope("part")
        await part.run(f"echo {'new' if first else 'old'}-1 >> file.txt", timeout_s=10)
        return [first, await part.is_patched("second"), await session.is_patched("third")]

    async with runs.session() as session:
        await old(session)
    for _ in range(2):
        async with runs.session() as session:
            assert await new(session) == [False, True, True]
            assert await session.act("read", {}, text, str) == "base\nold-1\n"
    assert len([step for step in session.steps if not step.replayed]) == 0
