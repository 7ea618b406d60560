"""Model calls at work when a person ends the turn."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from agent.errors import Interrupted
from agent.timings import timings

T = TypeVar("T")


async def within_turn(calling: Awaitable[T], turn_end: asyncio.Event | None) -> T:
    """Return the answer to a model call, unless a person ends the turn before there is one.

    A call that was cut off may have been paid. Its intent stays without a result, as after a
    crash: the next run of the attempt bills it as lost, and repeats it.

    Raises:
        Interrupted: the call was cut off; NotSent if it had not reached a provider.
    """
    if turn_end is None:
        return await calling
    call = asyncio.ensure_future(calling)
    ending = asyncio.ensure_future(turn_end.wait())
    try:
        await asyncio.wait({call, ending}, return_when=asyncio.FIRST_COMPLETED)
        # A call that still waits to be sent sees the stop by itself, and says that it is free.
        await asyncio.wait({call}, timeout=2 * timings().stop_check_s)
        call.cancel()
        await asyncio.wait({call})
        if call.cancelled() and turn_end.is_set():
            raise Interrupted("a person ended the turn during a model call")
        return call.result()
    finally:
        for task in (call, ending):
            task.cancel()
        await asyncio.wait({call, ending})
