"""Slots of the server-wide limit on cells."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import httpx
from prefect.concurrency.asyncio import concurrency

from agent.timings import STOP_CHECK_S
from flows.experiments.stop import Stop
from flows.server.retry import patiently
from flows.server.settings import CELLS

LEASE_S = 60.0
"""A slot stays taken for this long after its holder was killed. Prefect requires at least 60."""

TURN_S = 30.0
"""Consecutive cells of a shard share a slot for this long. Then cells elsewhere can get it."""

IDLE_S = 1.0
"""A shard keeps a slot for its next cell for this long."""


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


@asynccontextmanager
async def share_cell_slots(
    stop: Stop,
) -> AsyncIterator[Callable[[], AbstractAsyncContextManager[None]]]:
    """Yield a function that holds a slot during a block, which consecutive blocks share.

    Taking a slot costs more processor time than a short cell.
    """
    idle: list[_SharedSlot] = []

    def drop(slot: _SharedSlot) -> None:
        if slot in idle and time.monotonic() - slot.idle_since >= IDLE_S:
            idle.remove(slot)
            slot.is_left.set()

    @asynccontextmanager
    async def hold() -> AsyncIterator[None]:
        slot = idle.pop() if idle else await _SharedSlot.take(stop)
        try:
            yield
        finally:
            if time.monotonic() - slot.taken_at > TURN_S:
                await slot.release()
            else:
                slot.idle_since = time.monotonic()
                idle.append(slot)
                asyncio.get_running_loop().call_later(IDLE_S, drop, slot)

    try:
        yield hold
    finally:
        while idle:
            await idle.pop().release()


class _SharedSlot:
    """A slot in a separate task, because Prefect releases it in the task that took it."""

    def __init__(self) -> None:
        """Use `take`."""
        self.taken_at = self.idle_since = time.monotonic()
        self.is_left = asyncio.Event()
        self._holder: asyncio.Task[None]

    @classmethod
    async def take(cls, stop: Stop) -> "_SharedSlot":
        """Take a slot of the server. It raises what `cell_slot` raises."""
        slot, taken = cls(), asyncio.get_running_loop().create_future()

        async def hold() -> None:
            try:
                async with cell_slot(stop):
                    taken.set_result(None)
                    await slot.is_left.wait()
            except Exception as error:
                if not taken.done():
                    taken.set_exception(error)

        slot._holder = asyncio.create_task(hold())
        try:
            await taken
        except BaseException:
            slot._holder.cancel()
            raise
        return slot

    async def release(self) -> None:
        """Release the slot. If the server is unreachable, its lease expires there."""
        self.is_left.set()
        await asyncio.wait({self._holder})
