"""A Prefect server that is away is waited for: a restart of it ends nothing that is paid for."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TypeVar

import httpx
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError, concurrency

from agent.timings import timings
from flows.display.terminal import say
from flows.server.settings import CELLS

T = TypeVar("T")


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """What the server answers, after it was away for a while if that is so.

    Raises:
        httpx.HTTPError: it is away for longer than `Timings.server_patience_s`, or refuses.
        ConcurrencySlotAcquisitionError: the same, of a slot.
    """
    deadline, told = time.monotonic() + timings().server_patience_s, False
    while True:
        try:
            return await ask()
        except (httpx.HTTPError, ConcurrencySlotAcquisitionError) as error:
            if not _is_away(error) or time.monotonic() > deadline:
                raise
        if not told:
            say("the Prefect server does not answer; the cells go on, and so does waiting for it")
            told = True
        await asyncio.sleep(timings().server_retry_s)


@asynccontextmanager
async def cell_slot() -> AsyncIterator[None]:
    """A slot of the limit over all cells of the server for the length of the block.

    A server that is away by then cannot be told that the slot is free; it will notice.

    Raises:
        ConcurrencySlotAcquisitionError: the server is away for longer than
            `Timings.server_patience_s`.
    """

    async def taken() -> AbstractAsyncContextManager[None]:
        slot = concurrency(CELLS, lease_duration=timings().slot_lease_s)
        await slot.__aenter__()
        return slot

    slot = await patiently(taken)
    try:
        yield
    finally:
        with suppress(httpx.TransportError):
            await slot.__aexit__(None, None, None)


def _is_away(error: BaseException | None) -> bool:
    if isinstance(error, ConcurrencySlotAcquisitionError):
        error = error.__cause__
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
    return isinstance(error, httpx.TransportError)
