"""Cells as flow runs of the `solve` deployment, executed by any worker.

The results of cells are in the lake; the server is only asked which flow runs have ended. A
restarted benchmark therefore finds its cells again. Two benchmarks of one experiment and journal
share its cells: both use the same idempotency key for the n-th flow run of a cell.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelling, Crashed

from agent.timings import timings
from flows.display.terminal import say
from flows.errors import UsageError
from flows.experiments.cell_state import REFUSED, CellStates, End
from flows.experiments.cells import Cell
from flows.experiments.keys import attempt_key
from flows.experiments.plan import Plan
from flows.experiments.stop import Stop
from flows.server.heartbeats import Heartbeats
from flows.server.retry import patiently
from flows.server.settings import POOL
from flows.storage.journals import Home

DEPLOYMENT = "solve/solve"

CRASHES = 3
"""Consecutive flow runs of a cell that may crash before the cell counts as broken."""

REFUSALS = 3
"""A cell is given up after this many refusals by workers with another lake or journal."""

_PAGE = 200  # the server's own limit

OnEnd = Callable[[Cell, End, str], Awaitable[None]]


@dataclass(frozen=True)
class Order:
    """Work for the workers: the cells of a plan, and what every cell's flow run is given."""

    plan: Plan
    lake: str | None
    """The argument of the benchmark. Workers may have a different default."""
    home: Home
    """Workers with another lake or journal refuse the cells."""
    grade: bool


async def run_on_workers(
    order: Order, cells: Iterable[Cell], on_end: OnEnd, stop: Stop
) -> Counter[End]:
    """Have workers run these cells, up to the declared concurrency. Return counts by end state.

    A refused cell goes to the end of the queue, so that a correctly configured worker can take it.

    If the operator asks to stop, the flow runs are cancelled and have ended on return.

    Raises:
        UsageError: the server has no deployment for the cells.
    """
    waiting, alive = deque(cells), dict[UUID, Cell]()
    concurrency, states = order.plan.experiment.concurrency, CellStates(order.plan.lake)
    crashes, refusals, counts = Counter[str](), Counter[str](), Counter[End]()
    async with get_client() as client:
        runs = await FlowRuns.open(order, client)
        while waiting or alive:
            if stop.requested:
                await runs.cancel(alive)
                counts["interrupted"] += len(waiting) + len(alive)
                break
            while waiting and len(alive) < concurrency and not stop.requested:
                cell = waiting.popleft()
                alive[await runs.begin(cell)] = cell
            if await stop.within(timings().fanout_poll_s):
                continue
            for run in await runs.over(alive):
                cell = alive.pop(run.id)
                end, result = await asyncio.to_thread(states.ended, cell, grade=order.grade)
                if end != "done" and (reason := _refusal(run)):
                    refusals[cell.label] += 1
                    end, result = "misplaced", f"refused: {reason}"
                if end == "misplaced" and refusals[cell.label] < REFUSALS:
                    say(f"{cell.label}: flow run {run.name} was {result}")
                    waiting.append(cell)
                elif end != "done" and _has_crashed(run) and crashes[cell.label] + 1 < CRASHES:
                    crashes[cell.label] += 1
                    say(f"{cell.label}: flow run {run.name} crashed, and is replaced by another")
                    waiting.appendleft(cell)
                else:
                    counts[end] += 1
                    await on_end(cell, end, result)
    return counts


class FlowRuns:
    """The flow runs of one experiment's cells."""

    def __init__(
        self,
        order: Order,
        client: PrefectClient,
        deployment: DeploymentResponse,
        pending_s: float,
    ) -> None:
        """Use `open`."""
        self._order, self._client, self._deployment = order, client, deployment.id
        self._heartbeats = Heartbeats(client, deployment)
        self._pending_s = pending_s
        self._active: dict[str, UUID] = {}
        self._over = Counter[str]()
        self._waits_since: float | None = None
        self._has_hinted = False

    @classmethod
    async def open(cls, order: Order, client: PrefectClient) -> "FlowRuns":
        """Return the flow runs, including those begun by earlier benchmarks of the experiment.

        Raises:
            UsageError: the deployment is missing, or is from an earlier release.
        """
        try:
            deployment = await patiently(partial(client.read_deployment_by_name, DEPLOYMENT))
        except ObjectNotFound:
            raise UsageError(
                f"the Prefect server has no deployment {DEPLOYMENT}, which distributed cells "
                "need: `prefect deploy --all` in a clone creates it"
            ) from None
        if "home" not in (deployment.parameter_openapi_schema or {}).get("properties", {}):
            raise UsageError(
                f"the deployment {DEPLOYMENT} on the Prefect server is from an earlier release: "
                "`prefect deploy --all` in a clone updates it"
            )
        pool = await patiently(partial(client.read_work_pool, deployment.work_pool_name or POOL))
        limits = timings()
        pending_s = limits.pending_s if pool.type == "process" else limits.pending_elsewhere_s
        runs = cls(order, client, deployment, pending_s)
        async for run in runs._read(FlowRunFilter(tags=FlowRunFilterTags(all_=runs._tags()))):
            for tag in run.tags:
                if run.state is not None and run.state.is_final():
                    runs._over[tag] += 1
                else:
                    runs._active[tag] = run.id
        return runs

    async def begin(self, cell: Cell) -> UUID:
        """Return the active flow run of a cell, or create a new one."""
        tag = self._tag(cell)
        if active := self._active.pop(tag, None):
            return active
        parameters = {
            "experiment": cell.experiment.model_dump(mode="json"),
            "instance_id": cell.instance.instance_id,
            "arm": cell.arm.name,
            "repeat": cell.repeat,
            "lake": self._order.lake,
            "grade": self._order.grade,
            "home": self._order.home.model_dump(),
        }
        made = await patiently(
            partial(
                self._client.create_flow_run_from_deployment,
                self._deployment,
                parameters=parameters,
                idempotency_key=f"{tag}-{self._over[tag]}",
                tags=[*self._tags(), tag],
            )
        )
        return made.id

    async def over(self, cells: dict[UUID, Cell]) -> list[FlowRun]:
        """Return the flow runs that have ended."""
        ids, found = list(cells), []
        for start in range(0, len(ids), _PAGE):
            some = FlowRunFilterId(any_=ids[start : start + _PAGE])
            found += [run async for run in self._read(FlowRunFilter(id=some))]
        gone = set(ids) - {run.id for run in found}
        found += [FlowRun(id=each, flow_id=each, name="deleted") for each in gone]
        for run in found:
            if self._is_lost(run):
                await self._give_up(run, f"It was pending for {self._pending_s:.0f} seconds")
        for run in await self._heartbeats.silent(found):
            await self._give_up(
                run, f"No heartbeat for {timings().heartbeat_silence_s:.0f} seconds"
            )
        self._hint(found)
        finished = [run for run in found if run.state is None or run.state.is_final()]
        self._over.update(self._tag(cells[run.id]) for run in finished)
        return finished

    def _is_lost(self, run: FlowRun) -> bool:
        """Return True if a worker accepted the flow run but did not start it within the limit."""
        if run.state is None or not run.state.is_pending() or run.state.timestamp is None:
            return False
        return (datetime.now(UTC) - run.state.timestamp).total_seconds() > self._pending_s

    async def _give_up(self, run: FlowRun, why: str) -> None:
        """Mark a flow run as Crashed if its process is gone."""
        run.state = Crashed(message=f"{why}: its process is gone")
        change = self._client.set_flow_run_state
        await patiently(partial(change, run.id, run.state, force=True))

    def _hint(self, found: list[FlowRun]) -> None:
        """Print a hint, once, if no worker picks up any flow run for a while."""
        waits = bool(found) and all(run.state and run.state.is_scheduled() for run in found)
        if not waits:
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = time.monotonic()
        elif (
            time.monotonic() - self._waits_since > timings().no_worker_hint_s
            and not self._has_hinted
        ):
            self._has_hinted = True
            say(
                "no worker has picked up any cells: start one with `prefect worker start --pool "
                "durabench`"
            )

    async def cancel(self, cells: dict[UUID, Cell]) -> None:
        """Cancel flow runs, and wait until their calls in flight have finished.

        `graceful_stop` limits the duration; it only cuts off the waiting here.
        """
        cancel = self._client.set_flow_run_state
        orders = (patiently(partial(cancel, each, Cancelling())) for each in cells)
        await asyncio.gather(*orders)
        left = dict(cells)
        while left:
            for run in await self.over(left):
                del left[run.id]
            await asyncio.sleep(timings().fanout_poll_s)

    def _tags(self) -> list[str]:
        return ["durabench", f"experiment:{self._order.plan.experiment.name}"]

    def _tag(self, cell: Cell) -> str:
        """Return the tag of a cell's flow runs. Equal cells of another journal have another tag."""
        return f"cell:{self._order.home.journal_id[:8]}-{attempt_key(cell)[:32]}"

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


def _refusal(run: FlowRun) -> str | None:
    """Return the reason why a worker with another lake or journal refused a cell, else None."""
    if run.state is None or run.state.name != REFUSED:
        return None
    return run.state.message


def _has_crashed(run: FlowRun) -> bool:
    """Return True if the flow run crashed or was deleted."""
    return run.state is None or run.state.is_crashed()
