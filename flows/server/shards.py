"""Shards as flow runs of `solve/shard`. A restarted benchmark joins the shards at work."""

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
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Cancelling, Crashed, Pending

from agent.journal import Journal
from agent.journal.holding import expire_dead
from agent.timings import timings
from eval.digests import canonical_digest
from flows.display.errors import UsageError
from flows.display.terminal import say, say_once
from flows.experiments.cell_queue import OnEnd, count_claimable
from flows.experiments.cell_state import REFUSED, End
from flows.experiments.plan import Plan
from flows.server.flow_run import find_own
from flows.server.retry import patiently
from flows.server.settings import BENCHMARKS_QUEUE, CELLS_QUEUE, POOL
from flows.storage.journals import Home

_HINT_S = 45.0  # without any worker

DEPLOYMENT = "solve/shard"

PER_SHARD = 4
"""Concurrent cells of one process. Most of their time they wait for models and commands."""

CRASHES = 10
"""Consecutive shards that may crash in one place before any cell ends."""

REFUSALS = 3
"""A shard is given up after this many refusals by workers with another lake or journal."""

_GONE = "its process is gone"

_PAGE = 200  # the server's own limit


@dataclass(frozen=True)
class Order:
    """Work for the workers: the cells of a plan, and the parameters of every shard."""

    plan: Plan
    lake: str | None
    """The argument of the benchmark. Workers may have a different default."""
    home: Home
    """Workers with another lake or journal refuse the shards."""
    grade: bool

    @property
    def tags(self) -> list[str]:
        """The tags of the shards. Only shards of an equal order have all of them."""
        home, declared = self.home, self.plan.experiment
        parts = [declared.model_dump(mode="json"), self.lake, home.lake_id, home.journal_id]
        digest = canonical_digest([*parts, self.grade])[:16]
        return ["durabench", f"experiment:{declared.name}", f"order:{digest}"]


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
        self.why_none: tuple[End, str] = ("interrupted", "interrupted: its shard was cancelled")
        self._order, self._journal, self._client = order, journal, client
        self._deployment, self._is_of_processes = deployment, pool_type == "process"
        self._shards: list[_Shard] = []
        self._runs: dict[int, FlowRun] = {}
        """The flow runs that have not ended, by the number of their shard."""
        self._seen, self._busy = set[str](), set[str]()
        """Leases that a shard has held, and those in whose name it has held cells."""
        self._found: list[FlowRun] = []
        self._left = 0
        self._waits_since: float | None = None

    @classmethod
    async def open(cls, order: Order, journal: Journal, client: PrefectClient) -> "FlowRunShards":
        """Return the shards of a run, including shards of an earlier benchmark of an equal order.

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
        declared = self._order.plan.experiment.concurrency
        if self._found:
            count = max(run.parameters["shards"] for run in self._found)
        else:
            wanted = max(await self._count_workers(), math.ceil(declared / PER_SHARD))
            count = min(wanted, declared, cells)
        for index in range(count):
            slots = declared // count + (index < declared % count)
            self._shards.append(_Shard(index + 1, slots))
        joined = {run.parameters["number"]: run for run in self._found}
        for shard in self._shards:
            self._runs[shard.number] = joined.get(shard.number) or await self._create(shard)

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
            if (run := self._runs.get(shard.number)) and _has_ended(run):
                del self._runs[shard.number]
                shard.is_given_up = not self._may_follow(shard, run)
        for shard in self._shards:
            may_follow = shard.number not in self._runs and not shard.is_given_up
            if may_follow and self._starting < free:
                self._runs[shard.number] = await self._create(shard)
        self._print_hint()

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
            if _is_waiting(run):
                await self._cancel(run, "All cells were done before a worker started it.")
        try:
            async with asyncio.timeout(timings().stop_grace_s):
                await self._wait_until_ended()
        except TimeoutError:
            say("some shards have not ended yet, and have no cells: they are cancelled")
            await self._cancel_active("All cells were done, and it had not ended.")

    async def _join_running(self) -> None:
        """Find shards of an equal order that are at work, and use their queue."""
        tags = FlowRunFilter(tags=FlowRunFilterTags(all_=self._order.tags))
        by_queue = defaultdict[str, list[FlowRun]](list)
        async for run in self._read(tags):
            if not _has_ended(run) and run.state and not run.state.is_cancelling():
                by_queue[run.parameters["queue"]].append(run)
        for name, runs in by_queue.items():
            queue = self._journal.queue(name)
            if await asyncio.to_thread(queue.count_unended):
                self.queue, self._found = queue, runs

    async def _count_workers(self) -> int:
        """Return the number of workers online; 0 if they only start containers elsewhere.

        Prefect does not report a worker's queues. Workers for benchmarks are named after theirs.
        """
        if not self._is_of_processes:
            return 0
        pool = self._deployment.work_pool_name or POOL
        workers = await patiently(self._client.read_workers_for_work_pool, pool)
        names = [worker.name for worker in workers if worker.status == WorkerStatus.ONLINE]
        return sum(not name.startswith(BENCHMARKS_QUEUE) for name in names)

    async def _create(self, shard: _Shard) -> FlowRun:
        """Create a flow run of a shard, as a child of the benchmark's flow run."""
        experiment, count = self._order.plan.experiment, len(self._shards)
        name = f"{experiment.name}: shard {shard.number} of {count}"
        parameters = {
            "experiment": experiment.model_dump(mode="json"),
            "queue": self.queue.run,
            "number": shard.number,
            "shards": count,
            "concurrency": shard.concurrency,
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
            parent_task_run_id=await self._create_task_run(name),
        )
        return await patiently(make)

    async def _create_task_run(self, name: str) -> UUID | None:
        """Return the id of a task run that stands for a shard in the benchmark's graph."""
        run = find_own()
        if run is None:
            return None
        stands_for = Task(name=DEPLOYMENT, fn=lambda: None)
        make = partial(
            self._client.create_task_run,
            stands_for,
            run.id,
            dynamic_key=uuid.uuid4().hex,
            name=name,
            state=Pending(),
        )
        return (await patiently(make)).id

    async def _update_runs(self) -> None:
        """Read the flow runs. Mark those as Crashed whose processes are gone."""
        ids = [run.id for run in self._runs.values()]
        chosen = FlowRunFilter(id=FlowRunFilterId(any_=ids))
        current = {run.id: run async for run in self._read(chosen)} if ids else {}
        for number, run in self._runs.items():
            gone = FlowRun(id=run.id, flow_id=self._deployment.flow_id, name="deleted")
            self._runs[number] = current.get(run.id, gone)
        lost = await asyncio.to_thread(self._find_lost, [lease_name(id_) for id_ in ids])
        for run in self._runs.values():
            if why := self._explain_loss(run, lost):
                run.state = Crashed(message=f"{why}: {_GONE}")
                change = self._client.set_flow_run_state
                await patiently(change, run.id, run.state, force=True)

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
            if not _has_ended(run):
                await self._cancel(run, why)

    async def _cancel(self, run: FlowRun, why: str) -> None:
        """Cancel a flow run, at once if no worker has started it."""
        state: State[None] = Cancelled(message=why) if _is_waiting(run) else Cancelling(message=why)
        await patiently(self._client.set_flow_run_state, run.id, state)

    async def _wait_until_ended(self) -> None:
        while self._runs:
            await self._update_runs()
            self._runs = {n: run for n, run in self._runs.items() if not _has_ended(run)}
            await asyncio.sleep(timings().fanout_poll_s if self._runs else 0)

    def _print_hint(self) -> None:
        """Print a hint, once, if no worker takes any shard for a while."""
        if not self._runs or not all(map(_is_waiting, self._runs.values())):
            self._waits_since = None
            return
        self._waits_since = self._waits_since or time.monotonic()
        if time.monotonic() - self._waits_since > _HINT_S:
            say_once(
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
    """Return True if a benchmark has given up a shard, and replaced it."""
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
