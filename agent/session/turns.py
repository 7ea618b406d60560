"""Work and model calls under way when a person ends the turn."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from agent.errors import Interrupted, TurnEnded
from agent.timings import STOP_CHECK_S

T = TypeVar("T")

Work = Callable[[], Awaitable[T]]


async def work_within(working: Work[T], turn_end: asyncio.Event | None) -> T:
    """Return the result of work, unless a person ends the turn before there is one.

    Raises:
        TurnEnded: the work was cut off.
    """
    if turn_end is None:
        return await working()
    async with _until(working, turn_end) as work:
        if work.done():
            return work.result()
    raise TurnEnded("a person ended the turn before this had finished; its changes are lost")


async def call_within(calling: Work[T], turn_end: asyncio.Event | None) -> T:
    """Return the answer to a model call, unless a person ends the turn before there is one.

    A call that was cut off may have been paid. Its intent stays without a result, as after a
    crash: the next run of the attempt bills it as lost, and repeats it.

    Raises:
        Interrupted: the call was cut off; NotSent if it had not reached a provider.
    """
    if turn_end is None:
        return await calling()
    async with _until(calling, turn_end) as call:
        # A call that still waits to be sent sees the stop by itself, and says that it is free.
        await asyncio.wait({call}, timeout=2 * STOP_CHECK_S)
        call.cancel()
        await asyncio.wait({call})
        if call.cancelled() and turn_end.is_set():
            raise Interrupted("a person ended the turn during a model call")
        return call.result()


@asynccontextmanager
async def _until(doing: Work[T], turn_end: asyncio.Event) -> "AsyncIterator[asyncio.Future[T]]":
    """Run the block when something is done or the turn has ended. Cancel what is not done then."""
    task = asyncio.ensure_future(doing())
    ending = asyncio.create_task(turn_end.wait())
    try:
        await asyncio.wait({task, ending}, return_when=asyncio.FIRST_COMPLETED)
        yield task
    finally:
        for each in (task, ending):
            each.cancel()
        await asyncio.wait({task, ending})
