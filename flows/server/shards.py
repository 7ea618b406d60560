"""The shards of a run: flow runs of `solve/shard`, begun, watched, replaced and cancelled."""

import asyncio
import math
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

import httpx
from prefect import Task
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun, State, WorkerStatus
from prefect.client.schemas.responses import DeploymentResponse
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Cancelling, Crashed, Pending

from agent.journal import Journal
from agent.journal.holding import expire_dead
from agent.timings import timings
from flows.display.errors import UsageError
from flows.display.terminal import say
from flows.experiments.cell_state import REFUSED, End
from flows.experiments.shares import claimable
from flows.server.order import Order
from flows.server.retry import patiently
from flows.server.settings import BENCHMARKS_QUEUE, CELLS_QUEUE, POOL

_HINT_S = 45.0
"""Tell the operator how to start a worker after this long without any."""

DEPLOYMENT = "solve/shard"

PER_SHARD = 4
"""Concurrent cells of one process. Most of their time they wait for models and commands."""

CRASHES = 10
"""Consecutive shards that may crash in one place before any cell ends."""

REFUSALS = 3
"""A place is given up after this many refusals by workers with another lake or journal."""

_GONE = "its process is gone"

_PAGE = 200  # the server's own limit


@dataclass
class _Place:
    """One of the shards that a run consists of.

    Its flow run ends when there is no cell to take. Another follows when there is one again.
    """

    number: int
    """Counted from 1."""
    concurrency: int
    run: FlowRun | None
    crashes: int = 0
    refusals: int = 0
    is_given_up: bool = False
    """True if no other flow run follows."""


class Shards:
    """The shards of one run."""

    def __init__(
        self,
        order: Order,
        journal: Journal,
        client: PrefectClient,
        deployment: DeploymentResponse,
        pool_type: str,
    ) -> None:
        """Use `open`."""
        self.queue = journal.queue(uuid.uuid4().hex)
        """The queue of the run's cells."""
        self.why_none: tuple[End, str] = ("interrupted", "interrupted: its shard was cancelled")
        """The end of the cells that no shard is left for."""
        self._order, self._journal, self._client = order, journal, client
        self._deployment, self._is_of_processes = deployment, pool_type == "process"
        self._places: list[_Place] = []
        self._seen, self._busy = set[str](), set[str]()
        """Leases that a shard has held, and those in whose name it has held cells."""
        self._found: list[FlowRun] = []
        self._left = 0
        self._waits_since: float | None = None
        self._has_hinted = False

    @classmethod
    async def open(cls, order: Order, journal: Journal, client: PrefectClient) -> "Shards":
        """Return the shards of a run, including those of an earlier benchmark of an equal order.

        Raises:
            UsageError: the deployment is missing.
        """
        try:
            deployment = await patiently(client.read_deployment_by_name, DEPLOYMENT)
        except ObjectNotFound:
            raise UsageError(
                f"the Prefect server has no deployment {DEPLOYMENT}, which distributed cells "
                "need: `prefect deploy --all` in a clone creates it"
            ) from None
        pool = await patiently(client.read_work_pool, deployment.work_pool_name or POOL)
        shards = cls(order, journal, client, deployment, pool.type)
        await shards._join()
        return shards

    @property
    def _is_apart(self) -> bool:
        """Return True if each cell has a flow run of its own."""
        return self._order.plan.experiment.isolation == "flow_run"

    @property
    def at_work(self) -> bool:
        """Return True if a shard runs or will run."""
        may_follow = self._left > 0 and not all(place.is_given_up for place in self._places)
        return self._is_active or may_follow

    @property
    def _is_active(self) -> bool:
        return any(place.run is not None for place in self._places)

    @property
    def _starting(self) -> int:
        """Number of shards that have not yet taken a cell, and will."""
        runs = [place.run for place in self._places if place.run is not None]
        return sum(lease_name(run.id) not in self._busy for run in runs)

    async def begin(self, cells: int) -> None:
        """Begin the shards for this number of cells, except those that have been begun."""
        self._left = cells
        declared = self._order.plan.experiment.concurrency
        if self._found:
            count = max(run.parameters["shards"] for run in self._found)
        elif self._is_apart:
            count = min(declared, cells)
        else:
            wanted = max(await self._workers(), math.ceil(declared / PER_SHARD))
            count = min(wanted, declared, cells)
        for index in range(count):
            slots = declared // count + (index < declared % count)
            self._places.append(_Place(index + 1, slots, None))
        joined = {run.parameters["number"]: run for run in self._found}
        for place in self._places:
            place.run = joined.get(place.number) or await self._begun(place)

    async def tend(self) -> None:
        """Begin shards for free cells in the place of shards that have ended."""
        await self._look()
        left = await asyncio.to_thread(self.queue.left)
        # Before the free cells: one that is taken in between must not make room for another shard.
        self._busy |= (await asyncio.to_thread(self.queue.holders)).keys()
        free = await asyncio.to_thread(claimable, self.queue)
        if left < self._left:
            for place in self._places:
                place.crashes = 0
        self._left = left
        for place in self._places:
            if place.run is not None and _has_ended(place.run):
                ended, place.run = place.run, None
                place.is_given_up = not self._may_follow(place, ended)
        for place in self._places:
            if place.run is None and not place.is_given_up and self._starting < free:
                place.run = await self._begun(place)
        self._hint()

    async def cancel(self) -> None:
        """Cancel the shards. Wait for their calls in flight, as long as `graceful_stop` allows."""
        await self._cancel_active("The benchmark was stopped.")
        await self._until_ended()

    async def let_end(self) -> None:
        """Wait until the shards have ended, as they do without cells. Cancel the others."""
        for place in self._places:
            if place.run is not None and _is_waiting(place.run):
                await self._cancel(place.run, "All cells were done before a worker began it.")
        try:
            async with asyncio.timeout(timings().stop_grace_s):
                await self._until_ended()
        except TimeoutError:
            say("some shards have not ended yet, and have no cells: they are cancelled")
            await self._cancel_active("All cells were done, and it had not ended.")

    async def _join(self) -> None:
        """Find shards of an equal order that are at work, and use their queue."""
        tags = FlowRunFilter(tags=FlowRunFilterTags(all_=self._order.tags))
        by_queue = defaultdict[str, list[FlowRun]](list)
        async for run in self._read(tags):
            if not _has_ended(run) and run.state and not run.state.is_cancelling():
                by_queue[run.parameters["queue"]].append(run)
        for name, runs in by_queue.items():
            queue = self._journal.queue(name)
            if await asyncio.to_thread(queue.left):
                self.queue, self._found = queue, runs

    async def _workers(self) -> int:
        """Return the number of workers online; 0 if they only start containers elsewhere.

        Prefect does not say which queues a worker polls. One for benchmarks is known by its name.
        """
        if not self._is_of_processes:
            return 0
        pool = self._deployment.work_pool_name or POOL
        found = await patiently(self._client.read_workers_for_work_pool, pool)
        names = [worker.name for worker in found if worker.status == WorkerStatus.ONLINE]
        return sum(not name.startswith(BENCHMARKS_QUEUE) for name in names)

    async def _begun(self, place: _Place) -> FlowRun:
        """Begin a flow run of a shard, as a child of the benchmark's flow run."""
        experiment, count = self._order.plan.experiment, len(self._places)
        name = f"{experiment.name}: shard {place.number} of {count}"
        parameters = {
            "experiment": experiment.model_dump(mode="json"),
            "queue": self.queue.run,
            "number": place.number,
            "shards": count,
            "concurrency": place.concurrency,
            "most": 1 if self._is_apart else None,
            "lake": self._order.lake,
            "grade": self._order.grade,
            "home": self._order.home.model_dump(),
        }
        make = partial(
            self._client.create_flow_run_from_deployment,
            self._deployment.id,
            parameters=parameters,
            name=name,
            tags=self._order.tags,
            idempotency_key=uuid.uuid4().hex,  # a repeated request makes no second one
            parent_task_run_id=await self._in_graph(name),
        )
        return await patiently(make)

    async def _in_graph(self, name: str) -> UUID | None:
        """Return the id of a task run that stands for a shard in the benchmark's graph."""
        context = FlowRunContext.get()
        if context is None or context.flow_run is None:
            return None
        stands_for = Task(name=DEPLOYMENT, fn=lambda: None)
        make = partial(
            self._client.create_task_run,
            stands_for,
            context.flow_run.id,
            dynamic_key=uuid.uuid4().hex,
            name=name,
            state=Pending(),
        )
        return (await patiently(make)).id

    async def _look(self) -> None:
        """Read the flow runs. Mark those as Crashed whose processes are gone."""
        runs = {place.run.id: place for place in self._places if place.run is not None}
        for start in range(0, len(runs), _PAGE):
            some = FlowRunFilterId(any_=list(runs)[start : start + _PAGE])
            found = {run.id: run async for run in self._read(FlowRunFilter(id=some))}
            for each in some.any_ or ():
                gone = FlowRun(id=each, flow_id=self._deployment.flow_id, name="deleted")
                runs[each].run = found.get(each, gone)
        lost = await asyncio.to_thread(self._lost, [lease_name(each) for each in runs])
        for place in runs.values():
            assert place.run is not None
            if why := self._why_lost(place.run, lost):
                await self._give_up(place.run, why)

    def _lost(self, leases: list[str]) -> set[str]:
        """Return the leases that have expired, or whose holder has died on this machine."""
        holders = self._journal.holders(leases)
        expire_dead(self._journal, holders)
        lapsed = self._journal.lapsed(leases)
        self._seen |= holders.keys() | lapsed
        return lapsed

    def _why_lost(self, run: FlowRun, lost: set[str]) -> str | None:
        """Return the reason why the process of a flow run is considered dead, else None."""
        state = run.state
        if state is None or state.is_final() or state.timestamp is None:
            return None
        age_s = (datetime.now(UTC) - state.timestamp).total_seconds()
        limits = timings()
        pending_s = limits.pending_s * (1 if self._is_of_processes else 4)  # to pull an image
        if state.is_pending() and age_s > pending_s:
            return f"It was pending for {pending_s:.0f} seconds"
        if not (state.is_running() or state.is_cancelling()):
            return None
        if lease_name(run.id) in lost:
            return "It no longer renews its lease"
        if lease_name(run.id) not in self._seen and age_s > limits.heartbeat_silence_s:
            return f"It took no lease for {limits.heartbeat_silence_s:.0f} seconds"
        return None

    async def _give_up(self, run: FlowRun, why: str) -> None:
        """Mark a flow run as Crashed if its process is gone."""
        run.state = Crashed(message=f"{why}: {_GONE}")
        change = self._client.set_flow_run_state
        await patiently(change, run.id, run.state, force=True)

    def _may_follow(self, place: _Place, run: FlowRun) -> bool:
        """Return True if another flow run may take the place of an ended one."""
        state = run.state
        if state is None or state.is_crashed():
            place.crashes += 1
            if place.crashes < CRASHES:
                say(f"{run.name} crashed: its cells continue in other shards")
                return True
            self.why_none = ("infrastructure", f"infrastructure: {CRASHES} shards crashed")
        elif state.name == REFUSED:
            place.refusals += 1
            self.why_none = ("misplaced", f"refused: {state.message}")
            say(f"{run.name} was {self.why_none[1]}")
            return place.refusals < REFUSALS
        elif state.is_failed():
            self.why_none = ("infrastructure", f"infrastructure: {run.name}: {state.message}")
            say(f"{run.name} failed: {state.message}")
        return state is not None and state.is_completed()

    async def _cancel_active(self, why: str) -> None:
        """Cancel the flow runs that have not ended."""
        await self._look()
        for place in self._places:
            if place.run is not None and not _has_ended(place.run):
                await self._cancel(place.run, why)

    async def _cancel(self, run: FlowRun, why: str) -> None:
        """Cancel a flow run. One that no worker has begun is Cancelled at once."""
        state: State[None] = Cancelled(message=why) if _is_waiting(run) else Cancelling(message=why)
        await patiently(self._client.set_flow_run_state, run.id, state)

    async def _until_ended(self) -> None:
        while self._is_active:
            await self._look()
            for place in self._places:
                if place.run is not None and _has_ended(place.run):
                    place.run = None
            if self._is_active:
                await asyncio.sleep(timings().fanout_poll_s)

    def _hint(self) -> None:
        """Print a hint, once, if no worker takes any shard for a while."""
        runs = [place.run for place in self._places if place.run is not None]
        if not runs or not all(map(_is_waiting, runs)):
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = time.monotonic()
        elif time.monotonic() - self._waits_since > _HINT_S and not self._has_hinted:
            self._has_hinted = True
            say(
                "no worker has picked up any cells: start one with `prefect worker start --pool "
                f"{POOL} --work-queue {CELLS_QUEUE}`"
            )

    async def _read(self, chosen: FlowRunFilter) -> AsyncIterator[FlowRun]:
        offset = 0
        while True:
            ask = partial(
                self._client.read_flow_runs, flow_run_filter=chosen, limit=_PAGE, offset=offset
            )
            page = await patiently(ask)
            for run in page:
                yield run
            if len(page) < _PAGE:
                return
            offset += _PAGE


def lease_name(run: UUID) -> str:
    """Return the name of the lease that a shard holds while it is alive."""
    return f"shard-{run}"


async def was_given_up(run: UUID) -> bool:
    """Return True if a benchmark has given up a shard, and so begun another in its place."""
    async with get_client() as client:
        states = await patiently(client.read_flow_run_states, run)
    return any(_GONE in (state.message or "") for state in states)


async def mark_crashed(run: UUID, why: str) -> None:
    """Mark a flow run as Crashed, if the server answers."""
    with suppress(httpx.HTTPError):
        async with get_client() as client:
            await client.set_flow_run_state(run, Crashed(message=why))


def _has_ended(run: FlowRun) -> bool:
    """Return True if a flow run has ended or was deleted."""
    return run.state is None or run.state.is_final()


def _is_waiting(run: FlowRun) -> bool:
    """Return True if no worker has taken a flow run."""
    return run.state is not None and run.state.is_scheduled()
