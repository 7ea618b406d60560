"""Puts the cells of a run into a queue of the journal, and has shards take them from there.

The queue records which cells have ended, and leases record which shards are alive.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol, cast

from agent.errors import JournalError
from agent.journal import Queue
from agent.timings import timings
from flows.experiments.brake import say_retry
from flows.experiments.cell_queue import OnEnd
from flows.experiments.cell_state import End
from flows.experiments.cells import Cell
from flows.experiments.decisions import Monitor
from flows.experiments.keys import attempt_id_of
from flows.experiments.stop import Stop

SOONEST_S = 0.5
"""The first looks at shards follow each other so soon, later ones ever more slowly."""


class Shards(Protocol):
    """The processes that take the cells of one run."""

    @property
    def queue(self) -> Queue:
        """The queue of the run's cells."""

    @property
    def why_none(self) -> tuple[End, str]:
        """The end of the cells that no shard is left for."""

    @property
    def is_at_work(self) -> bool:
        """True if a shard runs or will run."""

    async def start(self, cells: int, on_end: OnEnd) -> None:
        """Start the shards for this number of cells.

        A shard of this process calls `on_end` for every cell. Others only end it in the queue.
        """

    async def watch(self) -> None:
        """Look at the shards. Start others for free cells where some have ended."""

    async def stop(self, *, cancel: bool) -> None:
        """Return when all shards have ended. With `cancel`, they end before all cells have."""


async def run_queue(
    shards: Shards, cells: Sequence[Cell], on_end: OnEnd, stop: Stop, monitor: Monitor
) -> Counter[End]:
    """Have shards run these cells. Return counts by end state.

    Cells that `monitor` does not need any more are withdrawn. If the operator or `on_end` asks to
    stop, the shards are cancelled and have ended on return.
    """
    ends = _Ends(shards.queue, {attempt_id_of(cell): cell for cell in cells}, on_end, monitor)
    await asyncio.to_thread(shards.queue.add, list(ends.left))
    await ends.withdraw()  # also the cells of an earlier benchmark that died
    begun = time.monotonic()
    await shards.start(len(ends.left), ends.report)
    while ends.left and shards.is_at_work and not stop.requested:
        passed_s = time.monotonic() - begun
        await stop.within(min(timings().fanout_poll_s, max(SOONEST_S, passed_s / 5)))
        await ends.report_all()
        await ends.report_retries()
        await shards.watch()
    await shards.stop(cancel=stop.requested)
    with suppress(JournalError):
        await ends.report_all()  # shards may have ended cells since, and then themselves
    for cell in list(ends.left.values()):
        if stop.requested:
            break
        await ends.report(cell, *shards.why_none)
    if stop.requested:
        ends.counts["interrupted"] += len(ends.left)
    return ends.counts


class _Ends:
    """Reports the cells that have ended."""

    def __init__(
        self, queue: Queue, cells: Mapping[str, Cell], on_end: OnEnd, monitor: Monitor
    ) -> None:
        self.left = dict(cells)
        """Cells that have not ended, by their name in the queue."""
        self.counts = Counter[End]()
        self._queue, self._on_end, self._monitor, self._since = queue, on_end, monitor, 0.0
        self._has_withdrawn = False

    async def report(self, cell: Cell, end: End, result: str) -> None:
        """Report the end of a cell, once."""
        if self.left.pop(attempt_id_of(cell), None) is not None:
            self.counts[end] += 1
            await self._on_end(cell, end, result)
            await self.withdraw()

    async def report_all(self) -> None:
        """Report the cells that have ended since the last time."""
        for ended in await asyncio.to_thread(self._queue.list_ended, self._since):
            self._since = max(self._since, ended.at)
            if cell := self.left.get(ended.name):
                await self.report(cell, cast("End", ended.ended_as), ended.result)

    async def report_retries(self) -> None:
        """Print what the cells at work wait for, a line for each cause."""
        for name, failure in (await asyncio.to_thread(self._queue.retries)).items():
            if cell := self.left.get(name):
                say_retry(cell.label, failure)

    async def withdraw(self) -> None:
        """Withdraw the cells that are not needed, once it is decided."""
        if self._has_withdrawn or self._monitor.decision is None:
            return
        self._has_withdrawn = True
        groups = await asyncio.to_thread(self._monitor.not_needed)
        names = [[attempt_id_of(cell) for cell in group] for group in groups]
        for name in await asyncio.to_thread(self._queue.withdraw, names, "not_needed"):
            if self.left.pop(name, None):
                self.counts["not_needed"] += 1
