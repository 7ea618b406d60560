"""Slots of the server-wide limit on cells."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import httpx
from prefect.concurrency.asyncio import concurrency

from agent.timings import STOP_CHECK_S
from flows.experiments.stop import Stop
from flows.server.retry import patiently
from flows.server.settings import CELLS

LEASE_S = 60.0
"""A slot stays taken for this long after its holder was killed. Prefect requires at least 60."""


@asynccontextmanager
async def cell_slot(stop: Stop) -> AsyncIterator[None]:
    """Hold a slot of the server-wide limit on cells during the block.

    If the server is unreachable at the end, the slot cannot be released; its lease expires on the
    server.

    Raises:
        Interrupted: the operator asked to stop before a slot was free.
        ConcurrencySlotAcquisitionError: the server is unreachable for longer than
            `Timings.server_patience_s`.
    """

    async def take() -> AbstractAsyncContextManager[None]:
        slot = concurrency(CELLS, lease_duration=LEASE_S)
        await slot.__aenter__()
        return slot

    async def watch() -> None:
        while not stop.requested:  # noqa: ASYNC110 - a signal handler sets it
            await asyncio.sleep(STOP_CHECK_S)
        limit.reschedule(0)

    try:
        async with asyncio.timeout(None) as limit:
            watcher = asyncio.create_task(watch())
            try:
                slot = await patiently(take)
            finally:
                watcher.cancel()
    except TimeoutError:
        stop.check()
        raise
    try:
        yield
    finally:
        with suppress(httpx.TransportError):
            await slot.__aexit__(None, None, None)
