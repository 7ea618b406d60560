"""The loop that runs cells: take one from the queue of the run, solve and grade it, end it."""

import asyncio
import uuid
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from prefect.exceptions import Pause

from agent.errors import BudgetExhausted, Interrupted, JournalError, Waiting, one_line
from agent.journal import Journal
from flows.cells.attempts import grade_submission, solve_only
from flows.cells.images.preflight import PreflightFailed, PreflightGate
from flows.cells.images.schedule import Places, schedule_images
from flows.experiments.cell_queue import CellQueue, OnEnd, ShardPart, open_queue
from flows.experiments.cell_state import CellStates, End, submission
from flows.experiments.cells import Cell
from flows.experiments.decisions import Monitor
from flows.experiments.declaration import Experiment
from flows.experiments.plan import Plan, prepare
from flows.experiments.stop import RESUME, Stop
from flows.server.dispatch import run_queue
from flows.server.settings import CELLS
from flows.server.slots import CellLimits, CellSlots, share_slots
from flows.server.turns import in_turn
from flows.storage.cleanup import clean_up_around
from flows.storage.journals import open_journal


class LocalShard:
    """This process as the only shard of a run, as `flows.server.dispatch.Shards`."""

    is_at_work = False

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        stop: Stop,
        *,
        grade: bool,
        limit: CellSlots,
    ) -> None:
        self.queue = journal.queue(uuid.uuid4().hex)
        self.why_none: tuple[End, str] = ("interrupted", "interrupted: its cell was lost")
        self._plan, self._journal, self._stop = plan, journal, stop
        self._grade, self._limit = grade, limit

    async def start(self, cells: int, on_end: OnEnd) -> None:
        """Run the cells to their end."""
        part, lease = ShardPart(self.queue.run), f"run-{self.queue.run}"
        try:
            async with open_queue(self._journal, part, lease, self._plan.cells) as queue:
                loop = _Loop(self._plan, queue, self._stop, self._grade, self._limit, on_end)
                await loop.run(self._plan.experiment.concurrency)
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
    result: tuple[End, str] = ("interrupted", RESUME)

    async def on_end(cell: Cell, end: End, text: str) -> None:
        nonlocal result
        result = end, text

    journal = await asyncio.to_thread(open_journal, plan.lake)
    async with share_slots(await CellLimits.read(CELLS), stop) as limit:
        shard = LocalShard(plan, journal, stop, grade=grade, limit=limit)
        await run_queue(shard, [cell], on_end, stop, Monitor(plan))
    return result


async def run_shard(
    experiment: Experiment,
    lake: str | None,
    part: ShardPart,
    concurrency: int,
    lease: str,
    *,
    grade: bool,
    stop: Stop,
) -> Counter[str]:
    """Run cells of a queue until none is left. Return their number by outcome.

    The shard takes them in the name of `lease`.

    Raises:
        ImageError: no Docker daemon answers.
        UsageError: this worker's dataset differs from the benchmark's, or the worker lacks
            something that the cells need.
    """
    plan = await prepare(experiment, lake)
    journal = await asyncio.to_thread(open_journal, plan.lake)
    async with (
        open_queue(journal, part, lease, plan.cells) as queue,
        share_slots(await CellLimits.read(CELLS), stop) as limit,
    ):
        return await _Loop(plan, queue, stop, grade, limit).run(concurrency)


@dataclass
class _Loop:
    """The cells of one process."""

    plan: Plan
    queue: CellQueue
    stop: Stop
    grade: bool
    limit: CellSlots
    on_end: OnEnd | None = None
    outcomes: Counter[str] = field(default_factory=Counter)
    """Number of cells by verdict, or by end state."""
    failure: JournalError | None = None
    """The reason why no more cells were taken. Cells at work still end."""

    def __post_init__(self) -> None:
        self._states, self._gate = CellStates(self.plan.lake), PreflightGate(self.plan.lake)

    async def run(self, concurrency: int) -> Counter[str]:
        """Run cells until none is left. Return their number by outcome.

        Raises:
            ImageError: no Docker daemon answers.
            JournalError: the journal gives no more cells.
        """
        lake, declared = self.plan.lake, self.plan.experiment
        recorded = partial(self._states.cell_at, grade=self.grade)
        images = schedule_images(
            self.queue.cells, declared.dataset, declared.images, lake, recorded, self.stop
        )
        try:
            async with clean_up_around(lake), images as places, asyncio.TaskGroup() as cells:
                await self._fill(asyncio.Semaphore(concurrency), places, cells)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        if self.failure is not None:
            raise self.failure
        return self.outcomes

    async def _fill(
        self, slots: asyncio.Semaphore, places: Places, cells: asyncio.TaskGroup
    ) -> None:
        """Start a cell whenever a slot is free, until none is left or the operator asks to stop."""
        while not self.stop.requested:
            await slots.acquire()
            if self.failure is not None:
                return
            try:
                share = None if self.stop.requested else await self.queue.take()
                if share is None:
                    slots.release()
                    if self.stop.requested or not await self.queue.wait():
                        return
                    continue
            except JournalError as error:
                self.failure = error
                return
            for cell in share.passed:
                places.skip(cell)
            cells.create_task(self._run_cell(share.cell, slots, places))

    async def _run_cell(self, cell: Cell, slots: asyncio.Semaphore, places: Places) -> None:
        """Run one cell. It records its own failures, and they do not affect other cells."""
        try:
            end, result = await self._finish(cell, slots, places)
        finally:
            slots.release()
        self.outcomes[end if end != "done" else result if self.grade else "solved"] += 1
        try:
            await self.queue.end(cell, end, result)
        except JournalError as error:  # the next run finds the cell's result in the lake
            self.failure = error
        if self.on_end is not None and end != "interrupted":
            await self.on_end(cell, end, result)

    async def _finish(
        self, cell: Cell, slots: asyncio.Semaphore, places: Places
    ) -> tuple[End, str]:
        """Give a cell its image, and solve and grade it. Return how it ended."""
        try:
            self.stop.check()
            async with places.open(cell) as place:
                do = partial(self._solve_and_grade, cell.at(place))
                # With a limit on images, a cell may wait for earlier cells to end. A cell that
                # waits for another run must therefore keep its slot.
                spare = slots if self.plan.experiment.images.keep_gb is None else None
                return "done", await in_turn(do, cell.label, self.plan.lake, self.stop, spare)
        except Interrupted as error:
            return "interrupted", str(error)
        except Pause as error:
            # Prefect raises it after a task run, and would cut off the calls of other cells.
            self.stop.requested = True
            return "interrupted", str(error)
        except Waiting as error:
            return "waiting", str(error)
        except PreflightFailed as error:
            return "refused", f"not run: {error}"
        except BudgetExhausted as error:
            return "budget", f"stopped: {error}"
        except Exception as error:
            return "infrastructure", f"infrastructure: {one_line(error)}"

    async def _solve_and_grade(self, cell: Cell) -> str:
        """Return the outcome, or the attempt id if the patch is not graded."""
        lake = self.plan.lake
        async with self.limit(cell):
            if cell.experiment.preflight:
                image = cell.place.image_digest
                if self._states.cell_at(cell, image, grade=self.grade) is None:
                    await self._gate.check(cell)
            attempt_id = await solve_only(cell, lake, stop=self.stop)
            if not self.grade:
                return attempt_id
            self.stop.check()
            patch = submission(cell, attempt_id, lake)
            return (await grade_submission(patch, lake, twice=cell.experiment.audit)).outcome
