"""Wait for work that another run or another cell of this run is doing, and use its result.

Two runs of one experiment share its cells through leases: each works on the cells that the other
does not hold, and continues cells that the other has left unfinished.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agent.errors import FencedError, LeaseHeld
from agent.journal import holding
from flows.display.terminal import say
from flows.experiments.stop import Stop
from flows.storage.journals import open_journal
from flows.storage.lake import Lake

T = TypeVar("T")


async def in_turn(
    do: Callable[[], Awaitable[T]],
    label: str,
    lake: Lake,
    stop: Stop,
    slots: asyncio.Semaphore | None = None,
) -> T:
    """Return the result of `do` once no other run holds the lease it needs.

    The caller's slot, one of `slots`, is released while waiting. Afterwards `do` finds the result
    recorded by the other run, or continues its work if that run died.

    Raises:
        Interrupted: the run was asked to stop while waiting.
    """
    is_announced = False
    while True:
        try:
            return await do()
        except (LeaseHeld, FencedError) as error:
            name = error.name
        journal = open_journal(lake)
        if not is_announced and not holding.is_held_here(journal, name):
            say(f"{label}: another run is working on it; waiting for its result")
            is_announced = True
        if slots is not None:
            slots.release()
        try:
            await holding.wait_until_free(journal, name, stop.sleep)
        finally:
            if slots is not None:
                await slots.acquire()
