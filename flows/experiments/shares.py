"""The cells that a shard runs: those of a list, or its share of a queue in the journal.

A run in one process is a single shard with a list. The shards of a distributed run take their cells
from one queue: each begins at its own offset, and then takes what the others have left.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from agent.journal import Journal, Queue
from agent.journal.holding import expire_dead, held
from agent.timings import timings
from flows.display.errors import UsageError
from flows.experiments.cell_state import End
from flows.experiments.cells import Cell
from flows.experiments.keys import attempt_id_of
from flows.experiments.stop import Stop

POLL_S = 1.0
"""Interval between checks whether another shard still holds a cell."""

OnEnd = Callable[[Cell, End, str], Awaitable[None]]


@dataclass(frozen=True)
class Share:
    """A cell that a shard has taken."""

    cell: Cell
    passed: tuple[Cell, ...] = ()
    """Earlier cells in the shard's order that other shards have taken since the last share."""
    was_lost: bool = False
    """True if a shard died while it ran the cell."""


class CellSource(Protocol):
    """The cells of one shard."""

    cells: Sequence[Cell]
    """All cells in the order of the shard, including those that other shards may take."""
    expects_lost: bool
    """True if a shard seems to be dead, so that a cell of it may be taken soon."""

    async def take(self) -> Share | None:
        """Take the next cell. Return None if none is free."""

    async def wait(self) -> bool:
        """Wait until a cell may be free. Return False if there is none to wait for."""

    async def end(self, cell: Cell, end: End, result: str) -> None:
        """End a taken cell."""

    async def give_back(self, cell: Cell) -> None:
        """Free a taken cell that was interrupted."""


class Listed:
    """A list of cells that no other shard takes."""

    expects_lost = False

    def __init__(self, cells: Sequence[Cell], on_end: OnEnd) -> None:
        self.cells = cells
        self._left, self._on_end = deque(cells), on_end

    async def take(self) -> Share | None:
        return Share(self._left.popleft()) if self._left else None

    async def wait(self) -> bool:
        return False

    async def end(self, cell: Cell, end: End, result: str) -> None:
        await self._on_end(cell, end, result)

    async def give_back(self, cell: Cell) -> None:
        """Do nothing: a later run resumes the cell."""

    def withdraw(self, groups: Sequence[Sequence[Cell]]) -> int:
        """Drop the cells of those groups of which none was taken. Return their number."""
        left = {cell_name(cell) for cell in self._left}
        names = [[cell_name(cell) for cell in group] for group in groups]
        dropped = {name for group in names if left.issuperset(group) for name in group}
        self._left = deque(cell for cell in self._left if cell_name(cell) not in dropped)
        return len(dropped)


@dataclass(frozen=True)
class ShardPart:
    """One of the shards of a run."""

    run: str
    """Name of the run's queue."""
    number: int
    """Counted from 0."""
    shards: int
    most: int | None = None
    """Number of cells that the shard takes at most."""


class Queued:
    """The cells of a queue in the journal, from the offset of a shard on."""

    def __init__(
        self, journal: Journal, part: ShardPart, holder: str, cells: Sequence[Cell], stop: Stop
    ) -> None:
        """Use `opened`. Cells are taken in the name of the lease `holder`.

        Raises:
            UsageError: `cells` lacks a cell of the queue.
        """
        self._journal, self._queue = journal, journal.queue(part.run)
        self._holder, self._most, self._stop = holder, part.most, stop
        known = {cell_name(cell): cell for cell in cells}
        places = self._queue.open()
        first = part.number * len(places) // part.shards
        self._start = [*places.values(), 0][first]
        names = list(places)
        ordered = names[first:] + names[:first]
        self._numbers = {name: number for number, name in enumerate(ordered)}
        self.cells: Sequence[Cell] = [_known(known, name) for name in ordered]
        self.expects_lost = False
        self._passed = self._taken = self._held = 0
        self._one_ended = asyncio.Event()

    async def take(self) -> Share | None:
        if self._is_full:
            return None
        taken = await asyncio.to_thread(self._queue.take, self._holder, self._start)
        if taken is None:
            return None
        self._taken += 1
        self._held += 1
        number = self._numbers[taken.name]
        passed = self.cells[self._passed : number]
        self._passed = max(self._passed, number + 1)
        return Share(self.cells[number], tuple(passed), taken.was_lost)

    async def wait(self) -> bool:
        """Wait until a cell may be free. Return False if there is none to wait for.

        Without cells of its own, a shard waits only for those that are about to be free. It ends
        otherwise, so that a worker can run something else, and a later one takes what is freed.
        """
        self._one_ended.clear()
        if self._is_full:
            return False
        if await asyncio.to_thread(self._free_dead):
            return True
        self.expects_lost = await asyncio.to_thread(claimable, self._queue) > 0
        if not self._held and not self.expects_lost:
            return False
        with suppress(TimeoutError):
            await asyncio.wait_for(self._one_ended.wait(), POLL_S)
        return True

    async def end(self, cell: Cell, end: End, result: str) -> None:
        finish = partial(self._queue.end, is_final=end == "done")
        await asyncio.to_thread(finish, cell_name(cell), self._holder, end, result)
        self._let_go()

    async def give_back(self, cell: Cell) -> None:
        await asyncio.to_thread(self._queue.give_back, cell_name(cell), self._holder)
        self._let_go()

    def _let_go(self) -> None:
        self._held -= 1
        self._one_ended.set()

    @property
    def _is_full(self) -> bool:
        return self._most is not None and self._taken >= self._most

    def _free_dead(self) -> bool:
        """Free the cells of shards that died on this machine. Return True if there was one."""
        return expire_dead(self._journal, self._queue.holders())


@asynccontextmanager
async def opened(
    journal: Journal, part: ShardPart, holder: str, cells: Sequence[Cell], stop: Stop
) -> AsyncIterator[Queued]:
    """Yield the cells of a shard, which holds a lease during the block.

    Cells that have not ended are free again afterwards.

    Raises:
        LeaseHeld: another process holds that lease.
        UsageError: `cells` lacks a cell of the queue.
    """
    await asyncio.to_thread(journal.offer, holder)
    async with held(journal, holder):
        free = journal.queue(part.run).give_back_all
        await asyncio.to_thread(free, holder)
        try:
            yield await asyncio.to_thread(Queued, journal, part, holder, cells, stop)
        finally:
            await asyncio.to_thread(free, holder)


def claimable(queue: Queue) -> int:
    """Return the number of cells that are free, or held by a shard that seems to be dead.

    A living one renews its lease three times within its duration.
    """
    return queue.claimable(timings().lease_s / 2)


def cell_name(cell: Cell) -> str:
    """Return the name of a cell in a queue: the id of its attempt."""
    return attempt_id_of(cell)


def _known(known: dict[str, Cell], name: str) -> Cell:
    if name not in known:
        raise UsageError(
            f"this worker's dataset lacks the cell of attempt {name}, or has another version of "
            "it: give all workers the same dataset"
        )
    return known[name]
