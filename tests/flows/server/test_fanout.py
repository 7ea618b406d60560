"""Cells that shards end while the benchmark waits for the Prefect server."""

from typing import Any

import pytest

from agent.journal.holding import held
from eval.instances import load
from flows.experiments import cells
from flows.experiments.cells import Cell, Place
from flows.experiments.plan import Plan
from flows.experiments.shares import cell_name
from flows.experiments.stop import Stop
from flows.server import fanout
from flows.server.order import Order
from flows.storage.journals import home
from flows.storage.lake import Lake
from tests.flows.conftest import trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


class LateShards:
    """Stands in for the shards: they end all cells, and then themselves, in one `tend`."""

    why_none = ("infrastructure", "infrastructure: no shard is left")

    def __init__(self, order: Order, journal: Any, *_rest: object) -> None:
        self.queue, self._journal = journal.queue("run"), journal
        self.at_work = True

    @classmethod
    async def open(cls, *given: Any) -> "LateShards":
        return cls(*given)

    async def begin(self, cells: int) -> None:
        pass

    async def tend(self) -> None:
        self._journal.offer("shard")
        async with held(self._journal, "shard"):
            while taken := self.queue.take("shard"):
                self.queue.end(taken.name, "shard", "done", "resolved")
        self.at_work = False

    async def let_end(self) -> None:
        pass


async def test_cells_that_ended_during_the_last_look_are_done(
    monkeypatch: pytest.MonkeyPatch, lake_path: str
) -> None:
    """Shards may end their cells and themselves while one look at the server is retried."""
    monkeypatch.setattr(fanout, "Shards", LateShards)
    lake = Lake.open(lake_path)
    declared = trial()
    instances = load("bundled")[:1]
    planned = cells.plan(declared, instances, Place("host"))
    plan = Plan(declared, "host", planned, lake)
    order = Order(plan, lake_path, home(lake), grade=True)
    told = []

    async def on_end(cell: Cell, end: str, result: str) -> None:
        told.append((cell_name(cell), end, result))

    ends = await fanout.run_on_workers(order, planned, on_end, Stop())
    assert ends == {"done": len(planned)}
    assert sorted(told) == sorted((cell_name(each), "done", "resolved") for each in planned)
