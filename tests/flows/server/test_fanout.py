"""Cells that shards end while the benchmark waits for the Prefect server."""

from typing import Any

import pytest

from agent.journal.holding import held
from eval.instances import load
from flows.experiments import cells
from flows.experiments.cells import Cell, Place
from flows.experiments.decisions import Monitor
from flows.experiments.plan import Plan, declare
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

    ends = await fanout.run_on_workers(order, planned, on_end, Stop(), Monitor(plan))
    assert ends == {"done": len(planned)}
    assert sorted(told) == sorted((cell_name(each), "done", "resolved") for each in planned)


class OneByOne(LateShards):
    """Shards that end one cell in each `tend`."""

    async def tend(self) -> None:
        self._journal.offer("shard")
        async with held(self._journal, "shard"):
            if taken := self.queue.take("shard"):
                result = "resolved" if taken.name in RESOLVED else "unresolved"
                self.queue.end(taken.name, "shard", "done", result)
        self.at_work = self.queue.left() > 0


RESOLVED = set[str]()


async def test_cells_are_withdrawn_when_it_is_decided(
    monkeypatch: pytest.MonkeyPatch, lake_path: str
) -> None:
    """Cells of instances that nobody has begun are taken out of the queue, also by a benchmark that
    takes the place of one that died in between."""
    monkeypatch.setattr(fanout, "Shards", OneByOne)
    primary = {"baseline": "unable", "candidate": "able"}
    declared = trial(primary=primary, stop_when={"primary": "decided", "alpha": 0.45})
    lake, instances = Lake.open(lake_path), load("bundled")[:6]
    declare(declared, instances, "host", lake)
    planned = cells.plan(declared, instances, Place("host"))
    plan = Plan(declared, "host", planned, lake)
    RESOLVED.update(cell_name(cell) for cell in planned if cell.arm.name == "able")
    order = Order(plan, lake_path, home(lake), grade=True)
    monitor = Monitor.of(plan, [None] * len(planned))

    async def on_end(cell: Cell, end: str, result: str) -> None:
        await monitor.look(cell, end, result)

    ends = await fanout.run_on_workers(order, planned, on_end, Stop(), monitor)
    assert ends == {"done": 16, "not_needed": 8}
    assert str(monitor.decision) == (
        "decided: able resolves more than unable (e-value 3.2 after 4 complete instances)"
    )
    again = Monitor.of(plan, [None] * len(planned))
    assert again.decision == monitor.decision
    ends = await fanout.run_on_workers(order, [], on_end, Stop(), again)
    assert not ends
