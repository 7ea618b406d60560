"""A whole experiment: every cell solved and graded, then the report."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from prefect import flow

from agent.errors import BudgetExhausted, Interrupted
from flows import preflight, stopping
from flows.cells import Cell
from flows.errors import IncompleteRun
from flows.experiment import Experiment
from flows.lake import Lake
from flows.plan import Plan, prepare
from flows.progress import Progress
from flows.report import report
from flows.solve import solve_and_grade, solve_only
from flows.stopping import graceful_stop
from flows.sweeping import swept

End = Literal["done", "interrupted", "infrastructure", "budget", "refused"]
Work = Callable[[Cell, Lake], Awaitable[str]]


@flow(name="benchmark", flow_run_name="{experiment.name}")
async def benchmark(
    experiment: Experiment,
    lake: str | None = None,
    *,
    grade: bool = True,
    fresh: bool = False,
) -> str:
    """Run an experiment; where it was run before, only what is missing. The report's page.

    Without `grade`, the attempts are made now and graded by a later run. With `fresh`, nothing
    is taken from before: the results get a name of their own that ends with the time.

    Raises:
        IncompleteRun: cells ended as infrastructure; the report says which. Run again to
            continue.
    """
    if fresh:
        experiment = experiment.afresh()
    plan = await prepare(experiment, lake)
    async with swept(plan.lake):
        refused = await preflight.refuse(plan) if experiment.preflight else {}
        ends = await _run_all(plan, solve_and_grade if grade else solve_only, refused)
    page = await report(experiment.name, lake=str(plan.lake.root))
    if ends["infrastructure"]:
        raise IncompleteRun(
            f"{ends['infrastructure']} of {ends.total()} cells ended as infrastructure; the report "
            "lists them. Run the experiment again to continue"
        )
    if ends["refused"]:
        raise IncompleteRun(
            f"{ends['refused']} of {ends.total()} cells were not run, as the images of "
            f"{len(refused)} instances failed their preflight; the report lists them"
        )
    if ends["budget"]:
        raise IncompleteRun(
            f"{ends['budget']} of {ends.total()} cells were stopped by a budget. Raise it and run "
            "the experiment again to continue from there"
        )
    return page


async def _run_all(plan: Plan, work: Work, refused: Mapping[str, str]) -> Counter[End]:
    """Run every cell, as many at once as the experiment says; how many ended in which way.

    `refused` gives the reason by the id of an instance on which nothing may run.

    Raises:
        Interrupted: the operator asked to stop, and what was in flight is recorded.
    """
    slots = asyncio.Semaphore(plan.experiment.concurrency)
    with graceful_stop() as stop, Progress(plan.experiment.name, len(plan.cells)) as progress:
        ends = await asyncio.gather(
            *(_run(cell, work, plan.lake, slots, progress, refused) for cell in plan.cells)
        )
    stop.check()
    return Counter(ends)


async def _run(
    cell: Cell,
    work: Work,
    lake: Lake,
    slots: asyncio.Semaphore,
    progress: Progress,
    refused: Mapping[str, str],
) -> End:
    """Run one cell; how that ended.

    Whatever broke, the task has recorded it, and the other cells have nothing to do with it.
    """
    if reason := refused.get(cell.instance.instance_id):
        await progress.advance(cell.label, f"not run: {reason}")
        return "refused"
    async with slots:
        try:
            stopping.check()
            result = await work(cell, lake)
        except Interrupted:
            return "interrupted"
        except BudgetExhausted as error:
            await progress.advance(cell.label, f"stopped: {error}")
            return "budget"
        except Exception as error:
            await progress.advance(cell.label, f"infrastructure: {error}")
            return "infrastructure"
    await progress.advance(cell.label, result)
    return "done"
