"""A whole experiment: solve and grade every cell, then write the report."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from prefect import flow

from agent.errors import BudgetExhausted, Interrupted
from flows.display.terminal import say
from flows.errors import IncompleteRun
from flows.experiments.cell_state import CellStates, End
from flows.experiments.cells import Cell
from flows.experiments.declaration import Experiment
from flows.experiments.plan import Plan, prepare
from flows.experiments.stop import Stop
from flows.images.preflight import Gate, PreflightFailed
from flows.images.schedule import scheduled
from flows.report import report
from flows.server.events import Announcements
from flows.server.fanout import OnEnd, Order, run_on_workers
from flows.server.progress import RunProgress
from flows.server.stopping import graceful_stop
from flows.server.turns import Slot, in_turn
from flows.solve import work
from flows.storage import journals
from flows.storage.cleanup import swept

Work = Callable[[Cell, Slot], Awaitable[str]]

_UNFINISHED: Mapping[End, str] = {
    "infrastructure": "ended as infrastructure; the report lists them. Run the experiment again "
    "to continue",
    "misplaced": "were refused by workers that have another lake or journal. Correct their "
    "settings, restart them and run the experiment again",
    "refused": "were not run, because their images failed the preflight; the report lists them",
    "budget": "were stopped by a budget. Raise it and run the experiment again to continue from "
    "there",
}
"""Message for each kind of unfinished cell, the most urgent first."""


@flow(name="benchmark", flow_run_name="{experiment.name}")
async def benchmark(
    experiment: Experiment,
    lake: str | None = None,
    *,
    grade: bool = True,
    fresh: bool = False,
) -> str:
    """Run an experiment, or the missing part of it. Return the location of the report page.

    Args:
        experiment: The experiment declaration.
        lake: Location of the results, a folder as the worker sees it or s3://…; by default the
            worker's DURABENCH_LAKE.
        grade: Grade the patches now, or leave that to a later run.
        fresh: Reuse no earlier results: the experiment gets a new name that ends with the time.

    Raises:
        IncompleteRun: some cells are unfinished; the message gives the reason and the next step.
            Run again to continue.
        Interrupted: the operator asked to stop; calls in flight are recorded.
    """
    if fresh:
        experiment = experiment.afresh()
        say(f"results are filed under {experiment.name}")
    distributed = experiment.execution == "distributed"
    plan = await prepare(experiment, lake, distributed=distributed)
    news = await Announcements.of(plan)
    with RunProgress(experiment.name, len(plan.cells)) as progress:

        async def on_end(cell: Cell, end: End, result: str) -> None:
            await progress.advance(cell.label, result)
            await news.ended(cell, end, result)

        async with graceful_stop() as stop:
            if distributed:
                counts = await _run_on_workers(plan, lake, on_end, stop, grade=grade)
            else:
                async with swept(plan.lake):
                    counts = await _run_locally(plan, on_end, stop, grade=grade)
            stop.check()
    page = await report(experiment.name, lake=str(plan.lake.root))
    news.finished(counts, page)
    for end, words in _UNFINISHED.items():
        if counts[end]:
            raise IncompleteRun(f"{counts[end]} of {counts.total()} cells {words}")
    return page


async def _run_locally(plan: Plan, on_end: OnEnd, stop: Stop, *, grade: bool) -> Counter[End]:
    """Run every cell in this process, up to the declared concurrency. Return counts by end state.

    Raises:
        ImageError: no Docker daemon answers.
    """
    declared = plan.experiment
    states = CellStates(plan.lake)
    known = partial(states.cell_at, grade=grade)
    slots = asyncio.Semaphore(declared.concurrency)
    gate = Gate(plan.lake)

    # With a limit on images, a cell may wait for earlier cells to end. A cell that waits for
    # another run must therefore get its slot back without waiting for them.
    is_kept = declared.images.keep_gb is not None

    async def placed_work(cell: Cell, slot: Slot) -> str:
        async with placed(cell) as there:
            do = partial(work, there, gate, states, stop, grade=grade)
            return await in_turn(do, cell.label, plan.lake, stop, slot)

    images = scheduled(plan.cells, declared.dataset, declared.images, plan.lake, known, stop)
    async with images as placed:
        ends = await asyncio.gather(
            *(
                _run(cell, placed_work, Slot(slots, is_kept=is_kept), on_end, stop)
                for cell in plan.cells
            )
        )
    return Counter(ends)


async def _run(cell: Cell, do: Work, slot: Slot, on_end: OnEnd, stop: Stop) -> End:
    """Run one cell. Return its end state.

    The task records its own failures; they do not affect other cells.
    """
    end: End = "done"
    async with slot:
        try:
            stop.check()
            result = await do(cell, slot)
        except Interrupted:
            return "interrupted"
        except PreflightFailed as error:
            end, result = "refused", f"not run: {error}"
        except BudgetExhausted as error:
            end, result = "budget", f"stopped: {error}"
        except Exception as error:
            end, result = "infrastructure", f"infrastructure: {error}"
    await on_end(cell, end, result)
    return end


async def _run_on_workers(
    plan: Plan, lake: str | None, on_end: OnEnd, stop: Stop, *, grade: bool
) -> Counter[End]:
    """Have workers run the cells that have no recorded result. Return counts by end state.

    Raises:
        UsageError: the server has no deployment for the cells.
    """
    states, waiting, counts = CellStates(plan.lake), [], Counter[End]()
    for cell in plan.cells:
        end, result = await asyncio.to_thread(states.ended, cell, grade=grade)
        if end == "done":
            counts[end] += 1
            await on_end(cell, end, result)
        else:
            waiting.append(cell)
    if not waiting:
        return counts
    home = await asyncio.to_thread(journals.home, plan.lake)
    order = Order(plan, lake, home, grade)
    return counts + await run_on_workers(order, waiting, on_end, stop)
