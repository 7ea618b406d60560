"""The shards of a distributed run: their number, their workers and their successors.

A restarted benchmark joins the shards at work.
"""

import asyncio
import math
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun

from agent.journal import Journal
from agent.journal.holding import expire_dead
from agent.timings import timings
from flows.display.terminal import say, say_once
from flows.experiments.cell_queue import OnEnd, ShardPart, count_claimable
from flows.experiments.cell_state import REFUSED, End
from flows.server.settings import CELLS_QUEUE, POOL
from flows.server.shard_runs import (
    Order,
    ShardRuns,
    find_crowded,
    has_ended,
    is_waiting,
    is_without_worker,
    lease_name,
)

_HINT_S = 45.0  # without any worker

PER_SHARD = 4
"""Concurrent cells of one process. Most of their time they wait for models and commands."""

CRASHES = 10
"""Consecutive shards that may crash in one place before any cell ends."""

REFUSALS = 3
"""A shard is given up after this many refusals by workers with another lake or journal."""

MOVES = 2
"""Flow runs of each shard, on average, that are taken from a worker with another shard of the run.
Then the idle worker counts as dead."""


@dataclass
class _Shard:
    """One of the shards of a run.

    Its flow run ends when no cell is free. Another one follows as soon as a cell is free again.
    """

    number: int
    """Counted from 1."""
    concurrency: int
    crashes: int = 0
    refusals: int = 0
    is_given_up: bool = False
    """True if no other flow run follows."""


class FlowRunShards:
    """The shards of one run, as `flows.server.dispatch.Shards`."""

    def __init__(self, order: Order, journal: Journal, runs: ShardRuns) -> None:
        """Use `open`."""
        self.queue = journal.queue(uuid.uuid4().hex)
        self.why_none: tuple[End, str] = ("interrupted", "interrupted: its shard was cancelled")
        self._declared, self._journal, self._server = order.plan.experiment, journal, runs
        self._shards: list[_Shard] = []
        self._runs: dict[int, FlowRun] = {}
        """The flow runs that have not ended, by the number of their shard."""
        self._seen, self._busy = set[str](), set[str]()
        """Leases that a shard has held, and those in whose name it has held cells."""
        self._found: list[FlowRun] = []
        self._left = self._moves = 0
        self._waits_since: float | None = None

    @classmethod
    async def open(cls, order: Order, journal: Journal, client: PrefectClient) -> "FlowRunShards":
        """Return the shards of a run, including shards of an earlier benchmark of an equal order.

        Raises:
            UsageError: the deployment is missing.
        """
        shards = cls(order, journal, await ShardRuns.open(order, client))
        await shards._join_running()
        return shards

    @property
    def is_at_work(self) -> bool:
        """Return True if a shard runs or will run."""
        may_follow = self._left > 0 and not all(shard.is_given_up for shard in self._shards)
        return bool(self._runs) or may_follow

    @property
    def _starting(self) -> int:
        """Number of shards that have not yet taken a cell, and will."""
        return sum(lease_name(run.id) not in self._busy for run in self._runs.values())

    async def start(self, cells: int, on_end: OnEnd) -> None:
        """Start the shards for this number of cells, except shards at work."""
        self._left = cells
        declared = self._declared.concurrency
        if self._found:
            count = max(run.parameters["shards"] for run in self._found)
        else:
            workers = await self._server.list_workers()
            count = min(max(len(workers), math.ceil(declared / PER_SHARD)), declared, cells)
        for index in range(count):
            slots = declared // count + (index < declared % count)
            self._shards.append(_Shard(index + 1, slots))
        self._runs = {run.parameters["number"]: run for run in self._found}
        await self._create_missing(free=count)

    async def watch(self) -> None:
        """Start flow runs for free cells, in the place of ended ones."""
        await self._update_runs()
        cells_left = await asyncio.to_thread(self.queue.count_unended)
        # Before the free cells: a cell taken in between must not make room for another shard.
        self._busy |= (await asyncio.to_thread(self.queue.holders)).keys()
        free = await asyncio.to_thread(count_claimable, self.queue)
        if cells_left < self._left:
            for shard in self._shards:
                shard.crashes = 0
        self._left = cells_left
        for shard in self._shards:
            if (run := self._runs.get(shard.number)) and has_ended(run):
                del self._runs[shard.number]
                shard.is_given_up = not self._may_follow(shard, run)
        await self._take_from_crowded()
        await self._create_missing(free)
        self._print_hint()

    async def _create_missing(self, free: int) -> None:
        """Create flow runs of shards without one, for free cells.

        While a worker is idle, only one of them waits: a worker takes all that it sees.
        """
        missing = [
            shard
            for shard in self._shards
            if shard.number not in self._runs and not shard.is_given_up
        ]
        if not missing or self._starting >= free:
            return
        is_any_idle = bool(await self._find_idle_workers())
        for shard in missing:
            is_one_waiting = any(map(is_without_worker, self._runs.values()))
            if self._starting >= free or (is_any_idle and is_one_waiting):
                return
            part = ShardPart(self.queue.run, shard.number, len(self._shards))
            self._runs[shard.number] = await self._server.create(part, shard.concurrency)

    async def _take_from_crowded(self) -> None:
        """Cancel a flow run that has not started, if its worker has two and an idle worker none."""
        crowded = find_crowded(self._runs.values())
        if crowded and (idle := await self._find_idle_workers()):
            self._moves += 1
            await self._server.take_away(crowded, min(idle))
            del self._runs[crowded.parameters["number"]]

    async def _find_idle_workers(self) -> set[str]:
        if self._moves > MOVES * len(self._shards):
            return set()
        return await self._server.list_idle_workers()

    async def stop(self, *, cancel: bool) -> None:
        """Wait until the shards have ended, as they do without cells. Cancel waiting flow runs.

        With `cancel`, cancel all flow runs, and wait for their calls in flight, as long as
        `graceful_stop` allows.
        """
        if cancel:
            await self._cancel_active("The benchmark was stopped.")
            await self._wait_until_ended()
            return
        for run in self._runs.values():
            if is_waiting(run):
                await self._server.cancel(run, "All cells were done before a worker started it.")
        try:
            async with asyncio.timeout(timings().stop_grace_s):
                await self._wait_until_ended()
        except TimeoutError:
            say("some shards have not ended yet, and have no cells: they are cancelled")
            await self._cancel_active("All cells were done, and it had not ended.")

    async def _join_running(self) -> None:
        """Find shards of an equal order that are at work, and use their queue."""
        by_queue = defaultdict[str, list[FlowRun]](list)
        for run in await self._server.find_earlier():
            by_queue[run.parameters["queue"]].append(run)
        for name, runs in by_queue.items():
            queue = self._journal.queue(name)
            if await asyncio.to_thread(queue.count_unended):
                self.queue, self._found = queue, runs

    async def _update_runs(self) -> None:
        """Read the flow runs. Mark those as Crashed whose processes are gone."""
        ids = [run.id for run in self._runs.values()]
        current = await self._server.read(ids)
        self._runs = {number: current[run.id] for number, run in self._runs.items()}
        lost = await asyncio.to_thread(self._find_lost, [lease_name(id_) for id_ in ids])
        for run in self._runs.values():
            if why := self._explain_loss(run, lost):
                await self._server.crash(run, why)

    def _find_lost(self, leases: list[str]) -> set[str]:
        """Return the leases that have expired, or whose holder has died on this machine."""
        holders = self._journal.holders(leases)
        expire_dead(self._journal, holders)
        lapsed = self._journal.lapsed(leases)
        self._seen |= holders.keys() | lapsed
        return lapsed

    def _explain_loss(self, run: FlowRun, lost: set[str]) -> str | None:
        """Return the reason why the process of a flow run is considered dead, else None."""
        state = run.state
        if state is None or state.is_final() or state.timestamp is None:
            return None
        age_s = (datetime.now(UTC) - state.timestamp).total_seconds()
        limits = timings()
        pending_s = limits.pending_s * (1 if self._server.are_processes else 4)  # to pull an image
        if state.is_pending() and age_s > pending_s:
            return f"It was pending for {pending_s:.0f} seconds"
        if not (state.is_running() or state.is_cancelling()):
            return None
        if lease_name(run.id) in lost:
            return "It no longer renews its lease"
        if lease_name(run.id) not in self._seen and age_s > limits.heartbeat_silence_s:
            return f"It took no lease for {limits.heartbeat_silence_s:.0f} seconds"
        return None

    def _may_follow(self, shard: _Shard, run: FlowRun) -> bool:
        """Return True if another flow run may take the place of an ended one."""
        state = run.state
        if state is None or state.is_crashed():
            shard.crashes += 1
            if shard.crashes < CRASHES:
                say(f"{run.name} crashed: its cells continue in other shards")
                return True
            self.why_none = ("infrastructure", f"infrastructure: {CRASHES} shards crashed")
        elif state.name == REFUSED:
            shard.refusals += 1
            self.why_none = ("misplaced", f"refused: {state.message}")
            say_once(f"{run.name} was {self.why_none[1]}")
            return shard.refusals < REFUSALS
        elif state.is_failed():
            self.why_none = ("infrastructure", f"infrastructure: {run.name}: {state.message}")
            say(f"{run.name} failed: {state.message}")
        return state is not None and state.is_completed()

    async def _cancel_active(self, why: str) -> None:
        """Cancel the flow runs that have not ended."""
        await self._update_runs()
        for run in self._runs.values():
            if not has_ended(run):
                await self._server.cancel(run, why)

    async def _wait_until_ended(self) -> None:
        while self._runs:
            await self._update_runs()
            self._runs = {n: run for n, run in self._runs.items() if not has_ended(run)}
            await asyncio.sleep(timings().fanout_poll_s if self._runs else 0)

    def _print_hint(self) -> None:
        """Print a hint, once, if no worker takes any shard for a while."""
        if not self._runs or not all(map(is_waiting, self._runs.values())):
            self._waits_since = None
            return
        self._waits_since = self._waits_since or time.monotonic()
        if time.monotonic() - self._waits_since > _HINT_S:
            say_once(
                "no worker has picked up any cells: start one with `prefect worker start --pool "
                f"{POOL} --work-queue {CELLS_QUEUE}`"
            )
