"""Run the cells of one process, a few at a time: a whole run, or a shard of a distributed one."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from prefect.exceptions import Pause

from agent.errors import BudgetExhausted, Interrupted, Waiting, one_line
from flows.cells.attempts import check_image, solve_and_grade, solve_only
from flows.cells.images.preflight import PreflightFailed, PreflightGate
from flows.cells.images.schedule import Placing, scheduled
from flows.display.terminal import say
from flows.experiments.cell_state import CellStates, End
from flows.experiments.cells import Cell
from flows.experiments.declaration import Experiment
from flows.experiments.models import refuse_unusable_models
from flows.experiments.plan import Plan, prepare
from flows.experiments.shares import CellSource, ShardPart, Share, opened
from flows.experiments.stop import Stop
from flows.server.processes import ProcessDied, begin_server, in_process
from flows.server.shards import lease_name, mark_crashed
from flows.server.slots import cell_slots
from flows.server.turns import Slot, in_turn
from flows.storage.cleanup import swept
from flows.storage.journals import open_journal

DEATHS = 3
"""Processes of a cell that may die before the cell ends as infrastructure."""

Limit = Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class How:
    """Settings for the cells of a process."""

    concurrency: int
    grade: bool


@dataclass(frozen=True)
class Ran:
    """Numbers of cells that a process has run."""

    ends: Counter[End] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    """By verdict, `solved` without one, and by end state if they are not done."""


async def run_shard(
    experiment: Experiment, lake: str | None, part: ShardPart, how: How, run: UUID, *, stop: Stop
) -> Ran:
    """Run cells of a queue until none is left. Return their numbers.

    `run` is the flow run of the shard. If its process dies, it is marked as Crashed.

    Raises:
        ImageError: no Docker daemon answers.
        UsageError: this worker's dataset differs from that of the benchmark, or it has no key of a
            model.
    """
    try:
        plan = await prepare(experiment, lake, distributed=True)
        await asyncio.to_thread(
            refuse_unusable_models, experiment, plan.cells, plan.lake, with_keys=True
        )
        journal = await asyncio.to_thread(open_journal, plan.lake)
        async with (
            opened(journal, part, lease_name(run), plan.cells, stop) as source,
            cell_slots(stop) as limit,
        ):
            return await run_cells(plan, source, how, stop, limit)
    finally:
        if stop.is_orphaned:
            await mark_crashed(run, "Its worker was stopped. Calls in flight were finished.")


async def run_cells(
    plan: Plan, source: CellSource, how: How, stop: Stop, limit: Limit = nullcontext
) -> Ran:
    """Run cells until none is left. Return their numbers.

    A cell runs within a block of `limit`.

    Raises:
        ImageError: no Docker daemon answers.
    """
    states, declared = CellStates(plan.lake), plan.experiment
    known = partial(states.cell_at, grade=how.grade)
    images = scheduled(source.cells, declared.dataset, declared.images, plan.lake, known, stop)
    try:
        async with swept(plan.lake), images as placing, asyncio.TaskGroup() as running:
            shard = _Shard(plan, source, how, stop, states, placing, limit)
            await shard.fill(running)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return shard.ran


class _Shard:
    """The cells of one process."""

    def __init__(
        self,
        plan: Plan,
        source: CellSource,
        how: How,
        stop: Stop,
        states: CellStates,
        placing: Placing[Cell],
        limit: Limit,
    ) -> None:
        self.ran = Ran()
        self._source, self._how, self._stop, self._states = source, how, stop, states
        self._placing, self._limit = placing, limit
        self._gate = PreflightGate(plan.lake)
        self._slots = asyncio.Semaphore(how.concurrency)
        self._do = solve_and_grade if how.grade else solve_only
        self._with_litellm = plan.experiment.needs_litellm
        self._is_apart = plan.experiment.isolation == "process"
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
            if self._source.expects_lost:
                await asyncio.to_thread(begin_server, self._do, with_litellm=self._with_litellm)

    async def _run(self, share: Share, slot: Slot) -> None:
        """Run one cell. It records its own failures, and they do not affect other cells."""
        try:
            end, result = await self._ended(share, slot)
        finally:
            slot.give()
        self.ran.ends[end] += 1
        self.ran.outcomes[end if end != "done" else result if self._how.grade else "solved"] += 1
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
                do = partial(self._work, there, apart=share.was_lost or self._is_apart)
                return "done", await in_turn(do, cell.label, self._states.lake, self._stop, slot)
        except Interrupted as error:
            return "interrupted", str(error)
        except Pause as error:
            # Prefect raises it after a task run, and would cut off the calls of other cells.
            self._stop.requested = True
            return "interrupted", str(error)
        except Waiting as error:
            return "waiting", str(error)
        except PreflightFailed as error:
            return "refused", f"not run: {error}"
        except BudgetExhausted as error:
            return "budget", f"stopped: {error}"
        except Exception as error:
            return "infrastructure", f"infrastructure: {one_line(error)}"

    async def _work(self, there: Cell, *, apart: bool) -> str:
        async with self._limit():
            await check_image(there, self._gate, self._states, grade=self._how.grade)
            if not apart:
                return await self._do(there, self._states.lake, stop=self._stop)
            begin = partial(
                in_process,
                *(self._do, there, self._states.lake),
                stop=self._stop,
                with_litellm=self._with_litellm,
            )
            for _ in range(DEATHS - 1):
                try:
                    return await begin()
                except ProcessDied as error:
                    say(f"{there.label}: {error}, and is replaced by another")
            return await begin()
