"""A benchmark whose cells are run by shards: flow runs of `solve/shard` on any worker.

The cells are in a queue of the journal. The queue tells which of them have ended, and leases tell
which shards are alive. A restarted benchmark joins the shards that are still at work.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import cast

from prefect.client.orchestration import get_client

from agent.journal import Queue
from agent.timings import timings
from flows.experiments.cell_state import End
from flows.experiments.cells import Cell
from flows.experiments.decisions import Monitor
from flows.experiments.shares import OnEnd, cell_name
from flows.experiments.stop import Stop
from flows.server.order import Order
from flows.server.shards import Shards
from flows.storage.journals import open_journal


async def run_on_workers(
    order: Order, cells: Iterable[Cell], on_end: OnEnd, stop: Stop, monitor: Monitor
) -> Counter[End]:
    """Have workers run these cells, up to the declared concurrency. Return counts by end state.

    Cells that `monitor` does not need any more are withdrawn.

    If the operator asks to stop, the shards are cancelled and have ended on return.

    Raises:
        UsageError: the server has no deployment for the shards.
    """
    journal = await asyncio.to_thread(open_journal, order.plan.lake)
    async with get_client() as client:
        shards = await Shards.open(order, journal, client)
        ends = _Ends(shards.queue, {cell_name(cell): cell for cell in cells}, on_end)
        await asyncio.to_thread(shards.queue.add, list(ends.left))
        await ends.withdraw(monitor)  # also those of an earlier benchmark that died
        await shards.begin(len(ends.left))
        while ends.left and shards.at_work and not stop.requested:
            await stop.within(timings().fanout_poll_s)
            await ends.tell()
            await ends.withdraw(monitor)
            await shards.tend()
        if stop.requested:
            await shards.cancel()
        await ends.tell()  # shards may have ended cells since, and then themselves
        if stop.requested:
            ends.counts["interrupted"] += len(ends.left)
        else:
            await ends.give_up(*shards.why_none)
            await shards.let_end()
    return ends.counts


class _Ends:
    """Tells which cells have ended."""

    def __init__(self, queue: Queue, cells: Mapping[str, Cell], on_end: OnEnd) -> None:
        self.left = dict(cells)
        """Cells that have not ended, by their name in the queue."""
        self.counts = Counter[End]()
        self._queue, self._on_end, self._since = queue, on_end, 0.0
        self._has_withdrawn = False

    async def tell(self) -> None:
        """Tell the cells that have ended since the last time."""
        for ended in await asyncio.to_thread(self._queue.ended, self._since):
            self._since = max(self._since, ended.at)
            if cell := self.left.pop(ended.name, None):
                await self._tell(cell, cast("End", ended.ended_as), ended.result)

    async def withdraw(self, monitor: Monitor) -> None:
        """Withdraw the cells that are not needed, once it is decided."""
        if self._has_withdrawn or monitor.decision is None:
            return
        self._has_withdrawn = True
        groups = await asyncio.to_thread(monitor.not_needed)
        names = [[cell_name(cell) for cell in group] for group in groups]
        for name in await asyncio.to_thread(self._queue.withdraw, names, "not_needed"):
            if self.left.pop(name, None):
                self.counts["not_needed"] += 1

    async def give_up(self, end: End, why: str) -> None:
        """Tell that no shard is left for the cells that have not ended."""
        for cell in self.left.values():
            await self._tell(cell, end, why)

    async def _tell(self, cell: Cell, end: End, result: str) -> None:
        self.counts[end] += 1
        await self._on_end(cell, end, result)
