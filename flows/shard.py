"""A shard: one process that solves and grades many cells, a few at a time.

A benchmark in one process is a single shard. With `execution: distributed`, each shard is a flow
run of the deployment `solve/shard`, and all of them take cells from one queue.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from agent.errors import BudgetExhausted, Interrupted
from flows.errors import UsageError
from flows.experiments.cell_state import REFUSED, CellStates, End
from flows.experiments.cells import Cell
from flows.experiments.declaration import Experiment
from flows.experiments.plan import Plan, prepare
from flows.experiments.shares import Part, Share, Source, opened
from flows.experiments.stop import Stop
from flows.images.preflight import Gate, PreflightFailed
from flows.images.schedule import Placing, scheduled
from flows.server.retry import cell_slots
from flows.server.shards import lease_name
from flows.server.stopping import graceful_stop
from flows.server.turns import Slot, in_turn
from flows.solve import work
from flows.storage.cleanup import swept
from flows.storage.journals import Home, check_home, open_journal
from flows.storage.lake import Lake

Limit = Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Conditions:
    """How the cells of a shard are run."""

    concurrency: int
    grade: bool
    limit: Limit = nullcontext
    """A block within which a cell runs."""


async def run_cells(plan: Plan, source: Source, how: Conditions, stop: Stop) -> Counter[End]:
    """Run cells until none is left. Return their number by end state.

    Raises:
        ImageError: no Docker daemon answers.
    """
    states, declared = CellStates(plan.lake), plan.experiment
    known = partial(states.cell_at, grade=how.grade)
    counts = Counter[End]()
    try:
        async with (
            swept(plan.lake),
            scheduled(
                source.cells, declared.dataset, declared.images, plan.lake, known, stop
            ) as placing,
            asyncio.TaskGroup() as running,
        ):
            shard = _Shard(plan, source, how, stop, states, placing, counts)
            await shard.fill(running)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return counts


class _Shard:
    """The cells of one process."""

    def __init__(
        self,
        plan: Plan,
        source: Source,
        how: Conditions,
        stop: Stop,
        states: CellStates,
        placing: Placing[Cell],
        counts: Counter[End],
    ) -> None:
        self._source, self._how, self._stop, self._states = source, how, stop, states
        self._placing, self._counts = placing, counts
        self._gate = Gate(plan.lake)
        self._slots = asyncio.Semaphore(how.concurrency)
        # With a limit on images, a cell may wait for earlier cells to end. A cell that waits for
        # another run must therefore get its slot back without waiting for them.
        self._is_kept = plan.experiment.images.keep_gb is not None

    async def fill(self, running: asyncio.TaskGroup) -> None:
        """Begin a cell whenever a slot is free, until none is left or the operator asks to stop."""
        while not self._stop.requested:
            slot = Slot(self._slots, is_kept=self._is_kept)
            await slot.take()
            share = None if self._stop.requested else await self._source.take()
            if share is not None:
                for cell in share.passed:
                    self._placing.skip(cell)
                running.create_task(self._run(share, slot))
                continue
            slot.give()
            if self._stop.requested or not await self._source.wait():
                return

    async def _run(self, share: Share, slot: Slot) -> None:
        """Run one cell. It records its own failures, and they do not affect other cells."""
        try:
            end, result = await self._ended(share, slot)
        finally:
            slot.give()
        self._counts[end] += 1
        if end == "interrupted":
            await self._source.give_back(share.cell)
        else:
            await self._source.end(share.cell, end, result)

    async def _ended(self, share: Share, slot: Slot) -> tuple[End, str]:
        """Return how a cell ended."""
        cell = share.cell
        try:
            self._stop.check()
            async with self._placing(cell) as there:
                do = partial(self._work, there)
                return "done", await in_turn(do, cell.label, self._states.lake, self._stop, slot)
        except Interrupted as error:
            return "interrupted", str(error)
        except PreflightFailed as error:
            return "refused", f"not run: {error}"
        except BudgetExhausted as error:
            return "budget", f"stopped: {error}"
        except Exception as error:
            return "infrastructure", f"infrastructure: {error}"

    async def _work(self, there: Cell) -> str:
        async with self._how.limit():
            return await work(there, self._gate, self._states, self._stop, grade=self._how.grade)


@flow(name="solve", flow_run_name="{experiment.name}: shard {number} of {shards}")
async def shard(
    experiment: Experiment,
    queue: str,
    number: int = 1,
    shards: int = 1,
    concurrency: int = 4,
    lake: str | None = None,
    *,
    grade: bool = True,
    home: Home | None = None,
) -> State[dict[str, int]]:
    """Solve and grade cells of an experiment until its queue is empty. The benchmark starts it.

    Args:
        experiment: The experiment that the cells belong to.
        queue: Name of the queue in the journal.
        number: Number of the shard, counted from 1; it decides with which cells the shard begins.
        shards: Number of shards of the queue.
        concurrency: Maximum number of concurrent cells of this shard.
        lake: Location of the results, a folder as the worker sees it or s3://…; by default the
            worker's DURABENCH_LAKE.
        grade: Grade the patches now, or leave that to a later run.
        home: The lake and the journal of the benchmark. A worker that uses others refuses the
            shard.

    Raises:
        UsageError: this worker's dataset differs from that of the benchmark.
        Interrupted: the operator asked to stop; calls in flight are recorded.
    """
    if home is not None:
        try:
            await asyncio.to_thread(check_home, Lake.existing(lake), home)
        except UsageError as error:
            return Failed(name=REFUSED, message=str(error))
    plan = await prepare(experiment, lake, distributed=True)
    journal = await asyncio.to_thread(open_journal, plan.lake)
    part = Part(queue, number - 1, shards)
    async with (
        graceful_stop() as stop,
        opened(journal, part, lease_name(flow_run.id), plan.cells, stop) as source,
        cell_slots(stop) as limit,
    ):
        counts = await run_cells(plan, source, Conditions(concurrency, grade, limit), stop)
        stop.check()
    return Completed(message=summary(counts), data=dict(counts))


def summary(counts: Counter[End]) -> str:
    """Return how the cells of a shard ended."""
    cells = f"{counts.total()} cell{'s' * (counts.total() != 1)}"
    return ", ".join([cells, *(f"{number} {end}" for end, number in counts.items())])
