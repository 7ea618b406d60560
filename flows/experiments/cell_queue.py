"""The cells of a run, in a queue of the journal that all its shards share.

Each shard starts at a different offset, and then takes the cells that others have left. A shard is
alive as long as it renews its lease. The cells of a dead shard are free for others.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from agent.journal import Journal, Queue
from agent.journal.holding import expire_dead, hold_lease
from agent.timings import timings
from flows.display.errors import UsageError
from flows.experiments.cell_state import End
from flows.experiments.cells import Cell
from flows.experiments.keys import attempt_id_of

POLL_S = 1.0
"""Interval between checks whether another shard still holds a cell."""

DEATHS = 2
"""Shards that may die at a cell before the cell ends as infrastructure."""

OnEnd = Callable[[Cell, End, str], Awaitable[None]]


@dataclass(frozen=True)
class ShardPart:
    """One of the shards of a run."""

    run: str
    """Name of the run's queue."""
    number: int = 1
    """Counted from 1. It decides which cells the shard takes first."""
    shards: int = 1


@dataclass(frozen=True)
class Share:
    """A cell that a shard has taken."""

    cell: Cell
    passed: tuple[Cell, ...] = ()
    """Earlier cells in the shard's order that other shards have taken since the last share."""


class CellQueue:
    """The cells of a run, from the offset of a shard on."""

    def __init__(
        self, journal: Journal, part: ShardPart, holder: str, cells: Sequence[Cell]
    ) -> None:
        """Use `open_queue`. Cells are taken in the name of the lease `holder`.

        Raises:
            UsageError: `cells` lacks a cell of the queue.
        """
        self._journal, self._queue, self._holder = journal, journal.queue(part.run), holder
        positions = self._queue.open()
        first = (part.number - 1) * len(positions) // part.shards
        self._start = [*positions.values(), 0][first]
        names = list(positions)
        ordered = names[first:] + names[:first]
        self._numbers = {name: number for number, name in enumerate(ordered)}
        by_name = {attempt_id_of(cell): cell for cell in cells}
        for name in ordered:
            if name not in by_name:
                raise UsageError(
                    f"this worker's dataset lacks the cell of attempt {name}, or has another "
                    "version of it: give all workers the same dataset"
                )
        self.cells = [by_name[name] for name in ordered]
        """All open cells in the order of the shard, including cells that others can take."""
        self._passed = 0
        self._held, self._lost = set[str](), set[str]()
        """Names of the cells that this shard has, and of the cells at which another shard died."""
        self._one_ended = asyncio.Event()

    async def take(self) -> Share | None:
        """Take the next cell. Return None if there is none to take.

        A shard has at most one cell at a time at which another shard died, so that a deadly cell
        does not count against cells that were taken with it. After `DEATHS`, a cell is ended.
        """
        while True:
            taken = await asyncio.to_thread(
                self._queue.take, self._holder, self._start, fresh=bool(self._lost)
            )
            if taken is None:
                return None
            if taken.losses < DEATHS:
                break
            why = "infrastructure: its process died twice"
            await self._end(taken.name, "infrastructure", why)
        self._held.add(taken.name)
        if taken.losses:
            self._lost.add(taken.name)
        number = self._numbers[taken.name]
        passed = self.cells[self._passed : number]
        self._passed = max(self._passed, number + 1)
        return Share(self.cells[number], tuple(passed))

    async def wait(self) -> bool:
        """Wait until a cell may be free. Return False if there is none to wait for.

        A shard without cells waits only for cells that are about to be free. Otherwise it ends, so
        that its worker can run something else. A later shard takes the freed cells.
        """
        self._one_ended.clear()
        if await asyncio.to_thread(lambda: expire_dead(self._journal, self._queue.holders())):
            return True  # a shard died on this machine
        if not self._held and not await asyncio.to_thread(count_claimable, self._queue):
            return False
        with suppress(TimeoutError):
            await asyncio.wait_for(self._one_ended.wait(), POLL_S)
        return True

    async def end(self, cell: Cell, end: End, result: str) -> None:
        """End a taken cell. One that was interrupted is free again."""
        name = attempt_id_of(cell)
        try:
            await self._end(name, end, result)
        finally:
            self._held.discard(name)
            self._lost.discard(name)
            self._one_ended.set()

    async def _end(self, name: str, end: End, result: str) -> None:
        queue, is_final = self._queue, end == "done"
        if end == "interrupted":
            await asyncio.to_thread(queue.give_back, name, self._holder)
        else:
            await asyncio.to_thread(queue.end, name, self._holder, end, result, is_final=is_final)


@asynccontextmanager
async def open_queue(
    journal: Journal, part: ShardPart, holder: str, cells: Sequence[Cell]
) -> AsyncIterator[CellQueue]:
    """Yield the cells of a shard, which holds a lease during the block.

    Cells that have not ended are free again afterwards.

    Raises:
        LeaseHeld: another process holds that lease.
        UsageError: `cells` lacks a cell of the queue.
    """
    await asyncio.to_thread(journal.offer, holder)
    async with hold_lease(journal, holder):
        free = journal.queue(part.run).give_back_all
        await asyncio.to_thread(free, holder)
        try:
            yield await asyncio.to_thread(CellQueue, journal, part, holder, cells)
        finally:
            await asyncio.to_thread(free, holder)


def count_claimable(queue: Queue) -> int:
    """Return the number of cells that are free, or held by a shard that seems to be dead.

    A living shard renews its lease three times within its duration.
    """
    return queue.claimable(timings().lease_s / 2)
