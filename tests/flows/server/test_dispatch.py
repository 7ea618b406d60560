"""Cells that shards end while the benchmark waits for them."""

from collections.abc import Callable

from agent.journal import Journal
from agent.journal.holding import hold_lease
from eval.instances import load
from flows.experiments import cells
from flows.experiments.cell_queue import OnEnd
from flows.experiments.cell_state import End
from flows.experiments.cells import Cell, Place
from flows.experiments.decisions import Monitor
from flows.experiments.keys import attempt_id_of
from flows.experiments.plan import Plan, declare
from flows.experiments.stop import Stop
from flows.server.dispatch import run_queue
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.conftest import trial


class LateShards:
    """Stands in for the shards: they end all cells, and then themselves, in one `watch`."""

    why_none: tuple[End, str] = ("infrastructure", "infrastructure: no shard is left")

    def __init__(self, journal: Journal) -> None:
        self.queue, self._journal = journal.queue("run"), journal
        self.is_at_work = True

    async def start(self, cells: int, on_end: OnEnd) -> None:
        pass

    async def watch(self) -> None:
        self._journal.offer("shard")
        async with hold_lease(self._journal, "shard"):
            while taken := self.queue.take("shard"):
                self.queue.end(taken.name, "shard", "done", "resolved")
        self.is_at_work = False

    async def stop(self, *, cancel: bool) -> None:
        pass


async def test_cells_that_ended_during_the_last_look_are_done(
    lake_path: str, set_timings: Callable[..., None]
) -> None:
    """Shards may end their cells and themselves while one look at the server is retried."""
    set_timings(fanout_poll_s=0.01)
    lake = Lake.open(lake_path)
    declared = trial()
    instances = load("bundled")[:1]
    planned = cells.plan(declared, instances, Place("host"))
    plan = Plan(declared, "host", planned, lake)
    told = []

    async def on_end(cell: Cell, end: str, result: str) -> None:
        told.append((attempt_id_of(cell), end, result))

    ends = await run_queue(LateShards(open_journal(lake)), planned, on_end, Stop(), Monitor(plan))
    assert ends == {"done": len(planned)}
    assert sorted(told) == sorted((attempt_id_of(each), "done", "resolved") for each in planned)


class OneByOne(LateShards):
    """Shards that end one cell in each `watch`."""

    async def watch(self) -> None:
        self._journal.offer("shard")
        async with hold_lease(self._journal, "shard"):
            if taken := self.queue.take("shard"):
                result = "resolved" if taken.name in RESOLVED else "unresolved"
                self.queue.end(taken.name, "shard", "done", result)
        self.is_at_work = self.queue.count_unended() > 0


RESOLVED = set[str]()


async def test_cells_are_withdrawn_when_it_is_decided(
    lake_path: str, set_timings: Callable[..., None]
) -> None:
    """Cells of instances that nobody has begun are taken out of the queue, also by a benchmark that
    takes the place of one that died in between."""
    set_timings(fanout_poll_s=0.01)
    primary = {"baseline": "unable", "candidate": "able"}
    declared = trial(primary=primary, stop_when={"primary": "decided", "alpha": 0.45})
    lake, instances = Lake.open(lake_path), load("bundled")[:6]
    declare(declared, instances, "host", lake)
    planned = cells.plan(declared, instances, Place("host"))
    plan = Plan(declared, "host", planned, lake)
    RESOLVED.update(attempt_id_of(cell) for cell in planned if cell.arm.name == "able")
    monitor = Monitor.of(plan, [None] * len(planned))

    async def on_end(cell: Cell, end: str, result: str) -> None:
        await monitor.look(cell, end, result)

    ends = await run_queue(OneByOne(open_journal(lake)), planned, on_end, Stop(), monitor)
    assert ends == {"done": 16, "not_needed": 8}
    assert str(monitor.decision) == (
        "decided: able resolves more than unable (e-value 3.2 after 4 complete instances)"
    )
    again = Monitor.of(plan, [None] * len(planned))
    assert again.decision == monitor.decision
    ends = await run_queue(OneByOne(open_journal(lake)), [], on_end, Stop(), again)
    assert not ends
