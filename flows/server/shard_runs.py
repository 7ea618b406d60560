"""The flow runs of `shard/shard` on the Prefect server, and the workers that take them."""

import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from prefect import Task
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, State, StateType, WorkerStatus
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Cancelling, Crashed, Pending

from eval.digests import canonical_digest
from flows.display.errors import UsageError
from flows.experiments.cell_queue import ShardPart
from flows.experiments.plan import Plan
from flows.server.flow_run import find_own
from flows.server.retry import patiently
from flows.server.settings import BENCHMARKS_QUEUE, POOL
from flows.storage.journals import Home

DEPLOYMENT = "shard/shard"

_GONE = "its process is gone"
_MOVED = "this one goes to"

_PAGE = 200  # the server's own limit

_WORKER = "prefect.worker.name"
"""The label with which a worker marks a flow run that it has taken."""

_AT_WORK = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]


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


class ShardRuns:
    """The flow runs of the shards of one order."""

    def __init__(
        self, order: Order, client: PrefectClient, deployment: DeploymentResponse, pool_type: str
    ) -> None:
        """Use `open`."""
        self._order, self._client, self._deployment = order, client, deployment
        self._pool = deployment.work_pool_name or POOL
        self.are_processes = pool_type == "process"
        """False if each flow run gets a container, on whatever machine is free."""

    @classmethod
    async def open(cls, order: Order, client: PrefectClient) -> "ShardRuns":
        """Return the flow runs of an order.

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
        return cls(order, client, deployment, pool.type)

    async def create(self, part: ShardPart, concurrency: int) -> FlowRun:
        """Create a flow run, as a child of the benchmark's flow run."""
        experiment = self._order.plan.experiment
        name = f"{experiment.name}: shard {part.number} of {part.shards}"
        parameters = {
            "experiment": experiment.model_dump(mode="json"),
            "queue": part.run,
            "number": part.number,
            "shards": part.shards,
            "concurrency": concurrency,
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

    async def read(self, ids: Sequence[UUID]) -> Mapping[UUID, FlowRun]:
        """Return flow runs by id. A deleted one has no state."""
        if not ids:
            return {}
        gone = partial(FlowRun, flow_id=self._deployment.flow_id, name="deleted")
        chosen = FlowRunFilter(id=FlowRunFilterId(any_=list(ids)))
        current = {run.id: run async for run in self._read(chosen)}
        return {id_: current.get(id_) or gone(id=id_) for id_ in ids}

    async def find_earlier(self) -> list[FlowRun]:
        """Return the flow runs of equal orders that are at work or wait for a worker."""
        tags = FlowRunFilter(tags=FlowRunFilterTags(all_=self._order.tags))
        return [
            run
            async for run in self._read(tags)
            if not has_ended(run) and run.state and not run.state.is_cancelling()
        ]

    async def list_workers(self) -> set[str]:
        """Return the names of the workers online; none if they only start containers elsewhere.

        Prefect does not report a worker's queues. Workers for benchmarks are named after theirs.
        """
        if not self.are_processes:
            return set()
        workers = await patiently(self._client.read_workers_for_work_pool, self._pool)
        names = {worker.name for worker in workers if worker.status == WorkerStatus.ONLINE}
        return {name for name in names if not name.startswith(BENCHMARKS_QUEUE)}

    async def list_idle_workers(self) -> set[str]:
        """Return the names of the workers online that have no flow run at all."""
        workers = await self.list_workers()
        if not workers:
            return set()
        at_work = FlowRunFilter(
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_AT_WORK))
        )
        pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[self._pool]))
        return workers - {find_worker(run) async for run in self._read(at_work, pool)}

    async def crash(self, run: FlowRun, why: str) -> None:
        """Mark a flow run as Crashed, because its process is gone."""
        run.state = Crashed(message=f"{why}: {_GONE}")
        await patiently(self._client.set_flow_run_state, run.id, run.state, force=True)

    async def cancel(self, run: FlowRun, why: str) -> None:
        """Cancel a flow run, at once if no worker has started it."""
        state: State[None] = Cancelled(message=why) if is_waiting(run) else Cancelling(message=why)
        await patiently(self._client.set_flow_run_state, run.id, state)

    async def take_away(self, run: FlowRun, idle: str) -> None:
        """Cancel a flow run that has not started, for an idle worker. If it starts, it ends."""
        await self.cancel(run, f"{find_worker(run)} has another shard of this run: {_MOVED} {idle}")

    async def _read(
        self, chosen: FlowRunFilter, pool: WorkPoolFilter | None = None
    ) -> AsyncIterator[FlowRun]:
        offset = 0
        while True:
            ask = partial(
                self._client.read_flow_runs,
                flow_run_filter=chosen,
                work_pool_filter=pool,
                limit=_PAGE,
                offset=offset,
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
    """Return True if a benchmark has given up a shard or moved it, and replaced it."""
    async with get_client() as client:
        states = await patiently(client.read_flow_run_states, run)
    messages = [state.message or "" for state in states]
    return any(mark in message for message in messages for mark in (_GONE, _MOVED))


def has_ended(run: FlowRun) -> bool:
    """Return True if a flow run has ended or was deleted."""
    return run.state is None or run.state.is_final()


def is_waiting(run: FlowRun) -> bool:
    """Return True if no worker has taken a flow run."""
    return run.state is not None and run.state.is_scheduled()


def find_worker(run: FlowRun) -> str | None:
    """Return the name of the worker that has taken a flow run; None if it is not known (yet)."""
    name = run.labels.get(_WORKER)
    return None if name is None else str(name)


def is_without_worker(run: FlowRun) -> bool:
    """Return True if a flow run has not started, and its worker is not known yet."""
    has_started = run.state is None or not (run.state.is_scheduled() or run.state.is_pending())
    return not has_started and find_worker(run) is None


def find_crowded(runs: Iterable[FlowRun]) -> FlowRun | None:
    """Return a flow run that has not started, on a worker with an earlier one."""
    workers = set[str | None]()
    for run in sorted((run for run in runs if not has_ended(run)), key=_age_order):
        worker = find_worker(run)
        if worker in workers and run.state is not None and run.state.is_pending():
            return run
        if worker is not None:
            workers.add(worker)
    return None


def _age_order(run: FlowRun) -> tuple[bool, str]:
    """Order flow runs by their creation. Running ones come first."""
    has_started = run.state is not None and run.state.is_running()
    return not has_started, str(run.created)
