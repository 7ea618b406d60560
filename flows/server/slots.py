"""Slots of the server's limits on cells: the limit on all cells, and limits on their tags.

An operator limits a tag as for task runs: `prefect concurrency-limit create arm:mini 8`. The task
runs of cells have no tags themselves, because Prefect asks the server about each tag of each one. A
cell takes the slots of all its limits with one request, and shares them with cells of equal limits.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import httpx
from prefect.client.orchestration import get_client
from prefect.concurrency.asyncio import concurrency

from agent.timings import STOP_CHECK_S
from flows.experiments.cells import Cell
from flows.experiments.records import model_name
from flows.experiments.stop import Stop
from flows.server.api import is_private
from flows.server.retry import patiently

CellSlots = Callable[[Cell], AbstractAsyncContextManager[object]]
"""Returns a block in which a cell runs."""

LEASE_S = 60.0
"""A slot stays taken for this long after its holder was killed. Prefect requires at least 60."""

TURN_S = 30.0
"""Consecutive cells of a shard share a slot for this long. Then cells elsewhere can get it."""

IDLE_S = 1.0
"""A shard keeps a slot for its next cell for this long."""


_TAG = "tag:"
"""Prefix of the limits on tags among Prefect's global limits."""

_PAGE = 200  # the server's own limit


class CellLimits:
    """The limits on cells, as they are when a process starts."""

    def __init__(self, always: Sequence[str], tags: Set[str]) -> None:
        """Use `read`. All cells take a slot of `always`, and those with a tag of `tags` of it."""
        self._always, self._tags = tuple(always), tags

    @classmethod
    async def read(cls, *always: str) -> "CellLimits":
        """Return the given global limits, and the limits on tags that the server has now.

        An operator cannot set any on the private server of a command.
        """
        if is_private():
            return cls((), frozenset())
        async with get_client() as client:
            limits = await patiently(client.read_concurrency_limits, limit=_PAGE, offset=0)
        return cls(always, {limit.tag for limit in limits})

    def names_for(self, cell: Cell) -> tuple[str, ...]:
        """Return the names of a cell's limits among Prefect's global limits."""
        return (*self._always, *(f"{_TAG}{tag}" for tag in list_tags(cell) if tag in self._tags))


def list_tags(cell: Cell) -> list[str]:
    """Return the tags whose limits bound a cell. Prefect allows no `/` in the name of a limit."""
    experiment, arm = cell.partition
    tags = ["durabench", f"experiment:{experiment}", f"arm:{arm}"]
    model = cell.experiment.model_of(cell.arm)
    return tags if model is None else [*tags, f"model:{model_name(model).replace('/', '-')}"]


@asynccontextmanager
async def hold_slots(names: Sequence[str], stop: Stop) -> AsyncIterator[None]:
    """Hold a slot of each of these global limits during the block. A missing limit has no bound.

    If the server is unreachable at the end, the slot cannot be released; its lease expires on the
    server.

    Raises:
        Interrupted: the operator asked to stop before a slot was free.
        ConcurrencySlotAcquisitionError: the server is unreachable for longer than
            `Timings.server_patience_s`.
    """

    async def take() -> AbstractAsyncContextManager[None]:
        slot = concurrency(list(names), lease_duration=LEASE_S)
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
async def share_slots(limits: CellLimits, stop: Stop) -> AsyncIterator[CellSlots]:
    """Yield a function that holds the slots of a cell during a block.

    Consecutive cells with equal limits share slots: taking one costs more processor time than a
    short cell.
    """
    idle: list[_SharedSlot] = []

    def drop(slot: _SharedSlot) -> None:
        if slot in idle and time.monotonic() - slot.idle_since >= IDLE_S:
            idle.remove(slot)
            slot.is_left.set()

    @asynccontextmanager
    async def hold(cell: Cell) -> AsyncIterator[None]:
        names = limits.names_for(cell)
        if not names:
            yield
            return
        slot = next((slot for slot in idle if slot.names == names), None)
        if slot is None:
            slot = await _SharedSlot.take(names, stop)
        else:
            idle.remove(slot)
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
    """Slots in a separate task, because Prefect releases them in the task that took them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        """Use `take`."""
        self.names = names
        self.taken_at = self.idle_since = time.monotonic()
        self.is_left = asyncio.Event()
        self._holder: asyncio.Task[None]

    @classmethod
    async def take(cls, names: tuple[str, ...], stop: Stop) -> "_SharedSlot":
        """Take slots of the server. It raises what `hold_slots` raises."""
        slot, taken = cls(names), asyncio.get_running_loop().create_future()

        async def hold() -> None:
            try:
                async with hold_slots(names, stop):
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
