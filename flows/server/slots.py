"""Slots of the server-wide limit on cells."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial

import httpx
from prefect.concurrency.asyncio import concurrency

from agent.timings import STOP_CHECK_S
from flows.experiments.stop import Stop
from flows.server.retry import patiently
from flows.server.settings import CELLS

LEASE_S = 60.0
"""A slot of the limit over all cells stays taken for this long after its holder was killed.

Prefect requires at least 60.
"""

TURN_S = 30.0
"""Consecutive cells of a shard keep a slot for this long. Then cells elsewhere may get it."""

IDLE_S = 1.0
"""A shard keeps a slot for its next cell for this long."""


@asynccontextmanager
async def cell_slot() -> AsyncIterator[None]:
    """Hold a slot of the server-wide limit on cells during the block.

    If the server is unreachable at the end, the slot cannot be released; its lease expires on the
    server.

    Raises:
        ConcurrencySlotAcquisitionError: the server is unreachable for longer than
            `Timings.server_patience_s`.
    """

    async def taken() -> AbstractAsyncContextManager[None]:
        slot = concurrency(CELLS, lease_duration=LEASE_S)
        await slot.__aenter__()
        return slot

    slot = await patiently(taken)
    try:
        yield
    finally:
        with suppress(httpx.TransportError):
            await slot.__aexit__(None, None, None)


@asynccontextmanager
async def cell_slots(stop: Stop) -> AsyncIterator[Callable[[], AbstractAsyncContextManager[None]]]:
    """Yield a function that holds a slot of the server-wide limit on cells during a block."""
    slots = _CellSlots(stop)
    try:
        yield slots.one
    finally:
        await slots.close()


class _CellSlots:
    """Slots of the server-wide limit on cells, which consecutive cells of a shard share.

    Taking a slot costs more than a short cell.
    """

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._idle: list[_Slot] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold a slot during the block.

        Raises:
            Interrupted: the operator asked to stop before a slot was free.
            ConcurrencySlotAcquisitionError: the server is unreachable for longer than
                `Timings.server_patience_s`.
        """
        slot = self._idle.pop() if self._idle else await _Slot.taken(self._stop)
        slot.in_use()
        try:
            yield
        finally:
            if slot.is_due:
                await slot.given()
            else:
                self._idle.append(slot)
                slot.when_idle(partial(self._give, slot))

    async def close(self) -> None:
        """Release all slots that are not in use."""
        while self._idle:
            await self._idle.pop().given()

    def _give(self, slot: "_Slot") -> None:
        self._idle.remove(slot)
        slot.leave.set()


class _Slot:
    """A slot that a task of its own holds."""

    def __init__(self) -> None:
        """Use `taken`."""
        self.leave = asyncio.Event()
        self._is_taken = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold())
        self._since = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def taken(cls, stop: Stop) -> "_Slot":
        """Take a slot of the server."""
        slot = cls()
        try:
            while not slot._is_taken.done():
                await asyncio.wait({slot._is_taken}, timeout=STOP_CHECK_S)
                stop.check()
            slot._is_taken.result()
        except BaseException:
            slot._task.cancel()
            raise
        return slot

    @property
    def is_due(self) -> bool:
        """Return True if others may want the slot."""
        return time.monotonic() - self._since > TURN_S

    def in_use(self) -> None:
        """Stop the timer of `when_idle`: the slot is used again."""
        if self._timer is not None:
            self._timer.cancel()

    def when_idle(self, do: Callable[[], None]) -> None:
        """Call a function when the slot was not used for a while."""
        self._timer = asyncio.get_running_loop().call_later(IDLE_S, do)

    async def given(self) -> None:
        """Release the slot."""
        self.in_use()
        self.leave.set()
        await asyncio.wait({self._task})

    async def _hold(self) -> None:
        try:
            async with cell_slot():
                self._is_taken.set_result(None)
                await self.leave.wait()
        except Exception as error:
            # If the server cannot release the slot, its lease expires there.
            if not self._is_taken.done():
                self._is_taken.set_exception(error)
