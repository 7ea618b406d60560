"""Waiting for cells that another run is working on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

import pytest

from agent.errors import Interrupted
from agent.journal import Journal
from agent.journal.holding import hold_lease
from flows.experiments.stop import Stop
from flows.server.turns import in_turn
from flows.storage.journals import VARIABLE, open_journal
from flows.storage.lake import Lake
from tests.waiting import until

NAME = "work"


@pytest.fixture
def lake(lake_path: str, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.delenv(VARIABLE, raising=False)
    return Lake.open(lake_path)


@pytest.fixture
def journal(lake: Lake) -> Journal:
    """Return a journal in which another program holds the lease of a piece of work."""
    journal = open_journal(lake)
    journal.offer(NAME)
    journal.acquire(NAME, "elsewhere/1-1", 300)
    return journal


async def use(journal: Journal) -> str:
    async with hold_lease(journal, NAME):
        return "used"


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[[], Awaitable[None]]:
    """Return a function that waits for the one message that a cell waits for another run."""
    said = ""

    def is_said() -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return "a cell: another run is working on it" in said

    async def wait() -> None:
        await until(is_said)
        assert said.count("a cell: another run is working on it") == 1

    return wait


class Slots(asyncio.Semaphore):
    """A single slot that counts how often it was requested."""

    def __init__(self) -> None:
        super().__init__(1)
        self.asked = 0

    async def acquire(self) -> Literal[True]:
        self.asked += 1
        return await super().acquire()


async def test_others_may_use_the_slot_of_a_waiting_cell(
    lake: Lake, journal: Journal, told: Callable[[], Awaitable[None]]
) -> None:
    """While a cell waits for another run, others may use its slot. It does its work once it has the
    slot again."""
    slots = Slots()

    async def wait() -> str:
        async with slots:
            return await in_turn(lambda: use(journal), "a cell", lake, Stop(), slots)

    waiting = asyncio.create_task(wait())
    await told()
    async with asyncio.timeout(60), slots:
        journal.expire(NAME, "elsewhere/1-1")
        await until(lambda: slots.asked == 3)
        assert not waiting.done()  # the cell does not have the slot yet
    assert await waiting == "used"
    assert not slots.locked()
    await told()


async def test_a_stop_ends_the_waiting(
    lake: Lake, journal: Journal, told: Callable[[], Awaitable[None]]
) -> None:
    """A stop request interrupts a waiting cell long before the lease expires, and frees its
    slot."""
    slots, stop = asyncio.Semaphore(1), Stop()

    async def wait() -> str:
        async with slots:
            return await in_turn(lambda: use(journal), "a cell", lake, stop, slots)

    waiting = asyncio.create_task(wait())
    await told()
    stop.requested = True
    with pytest.raises(Interrupted):
        async with asyncio.timeout(20):
            await waiting
    assert not slots.locked()
