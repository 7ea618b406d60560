"""The loop that runs cells: take one from the queue of the run, solve and grade it, end it."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from prefect.exceptions import Pause

from agent.errors import BudgetExhausted, Interrupted, JournalError, Waiting, one_line
from agent.journal import Journal
from flows.cells.attempts import solve_only
from flows.cells.images.preflight import PreflightFailed, PreflightGate
from flows.cells.images.schedule import Placing, scheduled
from flows.cells.verdicts import grade_submission
from flows.experiments.cell_queue import CellQueue, OnEnd, ShardPart, open_queue
from flows.experiments.cell_state import CellStates, End, submission
from flows.experiments.cells import Cell
from flows.experiments.decisions import Monitor
from flows.experiments.declaration import Experiment
from flows.experiments.models import refuse_unusable_models
from flows.experiments.plan import Plan, prepare
from flows.experiments.stop import RESUME, Stop
from flows.server.dispatch import run_queue
from flows.server.shards import lease_name, mark_crashed
from flows.server.slots import cell_slots
from flows.server.turns import Slot, in_turn
from flows.storage.cleanup import swept
from flows.storage.journals import open_journal

Limit = Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class How:
    """Settings for the cells of a process."""

    concurrency: int
    grade: bool


class LocalShard:
    """This process as the only shard of a run, as `flows.server.dispatch.Shards`."""

    is_at_work = False

    def __init__(
        self, plan: Plan, journal: Journal, how: How, stop: Stop, limit: Limit = nullcontext
    ) -> None:
        self.queue = journal.queue(uuid.uuid4().hex)
        self.why_none: tuple[End, str] = ("interrupted", "interrupted: its cell was lost")
        self._plan, self._journal, self._how = plan, journal, how
        self._stop, self._limit = stop, limit

    async def start(self, cells: int, on_end: OnEnd) -> None:
        """Run the cells to their end."""
        part, lease = ShardPart(self.queue.run), f"run-{self.queue.run}"
        try:
            async with open_queue(self._journal, part, lease, self._plan.cells) as cell_queue:
                await _run_cells(self._plan, cell_queue, self._how, self._stop, self._limit, on_end)
        except JournalError as error:
            self.why_none = ("infrastructure", f"infrastructure: {one_line(error)}")

    async def watch(self) -> None:
        """Do nothing: the cells have ended."""

    async def stop(self, *, cancel: bool) -> None:
        """Do nothing: the cells have ended."""


async def run_here(plan: Plan, cell: Cell, stop: Stop, *, grade: bool) -> tuple[End, str]:
    """Run one cell of a plan in this process. Return how it ended.

    Raises:
        ImageError: no Docker daemon answers.
    """
    ended: tuple[End, str] = ("interrupted", RESUME)

    async def on_end(cell: Cell, end: End, result: str) -> None:
        nonlocal ended
        ended = end, result

    journal = await asyncio.to_thread(open_journal, plan.lake)
    async with cell_slots(stop) as limit:
        shard = LocalShard(plan, journal, How(1, grade), stop, limit)
        await run_queue(shard, [cell], on_end, stop, Monitor(plan))
    return ended


async def run_shard(
    experiment: Experiment, lake: str | None, part: ShardPart, how: How, run: UUID, *, stop: Stop
) -> Counter[str]:
    """Run cells of a queue until none is left. Return their number by outcome.

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
            open_queue(journal, part, lease_name(run), plan.cells) as cell_queue,
            cell_slots(stop) as limit,
        ):
            return await _run_cells(plan, cell_queue, how, stop, limit)
    finally:
        if stop.is_orphaned:
            await mark_crashed(run, "Its worker was stopped. Calls in flight were finished.")


async def _run_cells(
    plan: Plan,
    cell_queue: CellQueue,
    how: How,
    stop: Stop,
    limit: Limit,
    on_end: OnEnd | None = None,
) -> Counter[str]:
    """Run cells until none is left. Return their number by outcome: a verdict, or an end state.

    A cell runs within a block of `limit`.

    Raises:
        ImageError: no Docker daemon answers.
        JournalError: the journal gives no more cells.
    """
    states, declared = CellStates(plan.lake), plan.experiment
    known = partial(states.cell_at, grade=how.grade)
    images = scheduled(cell_queue.cells, declared.dataset, declared.images, plan.lake, known, stop)
    try:
        async with swept(plan.lake), images as placing, asyncio.TaskGroup() as running:
            loop = _Loop(plan, cell_queue, how, stop, states, placing, limit, on_end)
            await loop.fill(running)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    if loop.failure is not None:
        raise loop.failure
    return loop.outcomes


class _Loop:
    """The cells of one process."""

    def __init__(
        self,
        plan: Plan,
        cell_queue: CellQueue,
        how: How,
        stop: Stop,
        states: CellStates,
        placing: Placing[Cell],
        limit: Limit,
        on_end: OnEnd | None,
    ) -> None:
        self.outcomes = Counter[str]()
        self.failure: JournalError | None = None
        """The reason why no more cells were taken. Cells at work still end."""
        self._queue, self._how, self._stop, self._states = cell_queue, how, stop, states
        self._placing, self._limit, self._on_end = placing, limit, on_end
        self._gate = PreflightGate(plan.lake)
        self._slots = asyncio.Semaphore(how.concurrency)
        # With a limit on images, a cell may wait for earlier cells to end. A cell that waits for
        # another run must therefore get its slot back without waiting for them.
        self._is_kept = plan.experiment.images.keep_gb is not None

    async def fill(self, running: asyncio.TaskGroup) -> None:
        """Begin a cell whenever a slot is free, until none is left or the operator asks to stop."""
        while not self._stop.requested:
            slot = Slot(self._slots, is_kept=self._is_kept)
            await slot.take()
            try:
                share = None if self._stop.requested else await self._queue.take()
                if share is None:
                    slot.give()
                    if self._stop.requested or not await self._queue.wait():
                        return
                    continue
            except JournalError as error:
                self.failure = error
                return
            for cell in share.passed:
                self._placing.skip(cell)
            running.create_task(self._run(share.cell, slot))

    async def _run(self, cell: Cell, slot: Slot) -> None:
        """Run one cell. It records its own failures, and they do not affect other cells."""
        try:
            end, result = await self._finish(cell, slot)
        finally:
            slot.give()
        self.outcomes[end if end != "done" else result if self._how.grade else "solved"] += 1
        with suppress(JournalError):  # the cell is free when the lease of this process has lapsed
            await self._queue.end(cell, end, result)
        if self._on_end is not None and end != "interrupted":
            await self._on_end(cell, end, result)

    async def _finish(self, cell: Cell, slot: Slot) -> tuple[End, str]:
        """Give a cell its image, and solve and grade it. Return how it ended."""
        try:
            self._stop.check()
            async with self._placing(cell) as placed:
                do = partial(self._grade, placed)
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

    async def _grade(self, cell: Cell) -> str:
        """Solve a cell and grade the patch. Return the outcome, or the attempt id if not graded."""
        lake, grade = self._states.lake, self._how.grade
        async with self._limit():
            if cell.experiment.preflight:
                image = cell.place.image_digest
                if self._states.cell_at(cell, image, grade=grade) is None:
                    await self._gate.check(cell)
            attempt_id = await solve_only(cell, lake, stop=self._stop)
            if not grade:
                return attempt_id
            self._stop.check()
            patch = submission(cell, attempt_id, lake)
            return (await grade_submission(patch, lake, twice=cell.experiment.audit)).outcome
