"""A chat of ten turns with tools whose process dies after any row of the journal."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agent.journal import InboxMessage
from agent.session.steps import from_record
from agent.types import Outcome
from tests.agent.arms.durable.conftest import Said
from tests.agent.arms.loop.conftest import Attempts, Died

TURNS = 10


def use(turn: int) -> tuple[str, dict[str, str]]:
    """Return the tool call of a turn: a new file, or a look at that of the turn before."""
    if turn % 2:
        return "read", {"path": f"{turn - 1}.txt"}
    return "write", {"path": f"{turn}.txt", "content": str(turn)}


REPLIES: list[Said] = [reply for turn in range(TURNS) for reply in ([use(turn)], f"I did {turn}.")]
ROWS = 60
"""Rows of the journal that a chat has: five for each turn and one for each further message."""


@pytest.fixture(autouse=True)
def _quick(set_timings: Callable[..., None]) -> None:
    set_timings(idle_s=60, inbox_poll_s=0.01)


@asynccontextmanager
async def answering(attempts: Attempts, turns: int = TURNS) -> AsyncIterator[None]:
    """Send the next message whenever the attempt waits for one, and end the chat after the last."""

    async def send() -> None:
        inbox = attempts.journal.inbox("a")
        while True:
            wait = await asyncio.to_thread(inbox.wait)
            if wait is not None and not wait.is_answered:
                number = len(inbox.read()) + 1
                kind = "say" if number < turns else "end"
                inbox.send(InboxMessage(str(number), kind, f"write {number}", "ann"))  # type: ignore[arg-type]
            await asyncio.sleep(0.01)

    sender = asyncio.create_task(send())
    try:
        yield
    finally:
        sender.cancel()
        with suppress(asyncio.CancelledError):
            await sender


async def talk(attempts: Attempts, dies_after: int | None = None) -> Outcome:
    async with answering(attempts):
        return await attempts.run(
            {"loop": REPLIES}, ["files"], dies_after=dies_after, interactive=True
        )


def history(attempts: Attempts) -> list[Any]:
    """Return all steps with their results, without times."""
    steps = [from_record(step) for step in attempts.journal.steps("a")]
    told = [(step.scope, step.seq, step.kind, step.result) for step in steps]
    text = json.dumps(told, default=vars)
    return json.loads(text, object_hook=_timeless)


def _timeless(value: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name not in ("sent_at", "latency_s")}


def answered(attempts: Attempts) -> int:
    """Return the number of calls whose answers are on record."""
    steps = attempts.journal.steps("a")
    return sum(step.kind == "model" and step.result is not None for step in steps)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, list[Any]]:
    """Return the outcome and the history of a chat that nothing disturbs."""
    attempts = Attempts(tmp_path_factory.mktemp("whole"))
    return asyncio.run(talk(attempts)), history(attempts)


@pytest.mark.slow
@pytest.mark.parametrize("rows", range(0, ROWS, 2))
async def test_a_chat_goes_on_after_a_death_at_any_row(
    tmp_path: Path, whole: tuple[Outcome, list[Any]], rows: int
) -> None:
    """Every message is answered once, no answer is bought twice, and the history is the same."""
    killed = Attempts(tmp_path)
    with pytest.raises(Died):
        await talk(killed, rows)
    before = answered(killed)
    found = await talk(killed)
    assert len(killed.model.asked) == 2 * TURNS - before
    assert (found.status, found.patch) == (whole[0].status, whole[0].patch)
    assert history(killed) == whole[1]
    assert [message.n for message in killed.journal.inbox("a").read()] == [*range(1, TURNS + 1)]
