"""Wait for work that another run or another cell of this run is doing, and use its result.

Two runs of one experiment share its cells through leases: each works on the cells that the other
does not hold, and continues those that the other has left unfinished.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

from agent.errors import FencedError, LeaseHeld
from agent.journal import holding
from flows.display.terminal import say
from flows.experiments.stop import Stop
from flows.storage.journals import open_journal
from flows.storage.lake import Lake

T = TypeVar("T")


class Slot:
    """One of the slots for concurrent work."""

    def __init__(self, slots: asyncio.Semaphore, *, is_kept: bool = False) -> None:
        """With `is_kept`, the slot stays reserved while its holder waits for another run."""
        self._slots, self._is_kept, self._is_taken = slots, is_kept, False

    async def __aenter__(self) -> Self:
        await self.take()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.give()

    @asynccontextmanager
    async def given_away(self) -> AsyncIterator[None]:
        """Release the slot during the block, and permanently if the block fails."""
        if self._is_kept:
            yield
            return
        self.give()
        yield
        await self.take()

    async def take(self) -> None:
        """Wait for the slot."""
        await self._slots.acquire()
        self._is_taken = True

    def give(self) -> None:
        """Release the slot, if it is taken."""
        if self._is_taken:
            self._is_taken = False
            self._slots.release()


async def in_turn(
    do: Callable[[], Awaitable[T]], label: str, lake: Lake, stop: Stop, slot: Slot | None = None
) -> T:
    """Return the result of `do` once no other run holds the lease it needs.

    The slot is released while waiting. Afterwards `do` finds the result recorded by the other run,
    or continues its work if that run died.

    Raises:
        Interrupted: the run was asked to stop while waiting.
    """
    slot = slot or Slot(asyncio.Semaphore())
    is_told = False
    while True:
        try:
            return await do()
        except (LeaseHeld, FencedError) as error:
            name = error.name
        journal = open_journal(lake)
        if not is_told and not holding.is_held_here(journal, name):
            say(f"{label}: another run is working on it; waiting for its result")
            is_told = True
        async with slot.given_away():
            await holding.freed(journal, name, stop.sleep)
