"""A whole experiment: solve and grade every cell, then write the report."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.states import Completed

from flows.cells.loop import LocalShard
from flows.display.errors import GateFailed, IncompleteRun
from flows.display.terminal import say
from flows.experiments.brake import Brake
from flows.experiments.cell_state import CellStates, End
from flows.experiments.cells import Cell
from flows.experiments.decisions import Monitor
from flows.experiments.declaration import ExperimentSource
from flows.experiments.gates import check_answers, find_failed_gates
from flows.experiments.keys import attempt_id_of
from flows.experiments.plan import Plan, prepare
from flows.report import publish
from flows.server.dispatch import run_queue
from flows.server.events import Announcements
from flows.server.flow_run import end_as_state, name_run, parse_declaration
from flows.server.progress import RunProgress
from flows.server.shard_runs import Order
from flows.server.shards import FlowRunShards
from flows.server.slots import CellLimits, share_slots
from flows.server.stopping import graceful_stop
from flows.storage import journals, report_files
from flows.storage.images import ImageCache
from reports.format import plural

_UNFINISHED: Mapping[End, str] = {
    "infrastructure": "ended as infrastructure; the report lists them. Run the experiment again "
    "to continue",
    "misplaced": "refused by workers, for the reasons above. Correct them, restart the workers and "
    "run the experiment again",
    "refused": "not run, because their images failed the preflight; the report lists them",
    "budget": "stopped by a budget. Raise it and run the experiment again to continue from there",
    "waiting": "waiting for a person: durabench status shows them. Answer with durabench send or "
    "approve, and run the experiment again",
}
"""Message for each kind of unfinished cell, the most urgent first."""


@flow(name="benchmark")
@end_as_state
async def benchmark(
    experiment: ExperimentSource,
    lake: str | None = None,
    *,
    grade: bool = True,
    fresh: bool = False,
) -> str:
    """Run an experiment, or the missing part of it. Return the location of the report page.

    Args:
        experiment: The experiment declaration, the path of its file as the worker sees it, or the
            name of a Prefect Variable that holds it.
        lake: Location of the results, a folder as the worker sees it or s3://…; by default the
            worker's DURABENCH_LAKE.
        grade: Grade the patches now, or leave that to a later run.
        fresh: Reuse no earlier results: the experiment gets a new name that ends with the time.

    Raises:
        UsageError: the experiment, its file or its Variable cannot be used.
        IncompleteRun: some cells are unfinished; the message gives the reason and the next step.
            Run again to continue.
        GateFailed: all cells are done, and an arm does not keep a declared bound, or had no
            answer of its model.
        Interrupted: the operator asked to stop; calls in flight are recorded.
    """
    experiment = await parse_declaration(experiment)
    if fresh:
        experiment = experiment.afresh()
        say(f"results are filed under {experiment.name}")
    await name_run(experiment.name)
    distributed = experiment.execution == "distributed"
    plan = await prepare(experiment, lake, runs_here=not distributed)
    for rebuy in plan.rebuys:
        say(str(rebuy))
    news = await Announcements.of(plan)
    brake = Brake(experiment.concurrency)
    with RunProgress(experiment.name, len(plan.cells), plan.lake) as progress:

        async def on_end(cell: Cell, end: End, result: str) -> None:
            await progress.advance(cell.label, result)
            await news.announce_end(cell, end, result)
            await monitor.look(cell, end, result)
            brake.look(cell, end, result)
            stop.requested |= brake.is_on

        async with graceful_stop() as stop:
            results, monitor, missing = await asyncio.to_thread(_read_results, plan, grade=grade)
            if results:
                await progress.skip(results)
                await news.announce_resume()
            journal = await asyncio.to_thread(journals.open_journal, plan.lake)
            if not distributed:
                limits = await CellLimits.read()
                async with share_slots(limits, stop) as limit, progress.show_life(journal):
                    shard = LocalShard(plan, journal, stop, grade=grade, limit=limit)
                    counts = await run_queue(shard, missing, on_end, stop, monitor)
            elif missing or monitor.decision is not None:
                home = await asyncio.to_thread(journals.home, plan.lake)
                async with get_client() as client, progress.show_life(journal):
                    order = Order(plan, lake, home, grade)
                    shards = await FlowRunShards.open(order, journal, client)
                    counts = await run_queue(shards, missing, on_end, stop, monitor)
            else:
                counts = Counter[End]()
            counts["done"] += results.total()
            counts["not_needed"] += len(plan.cells) - len(missing) - results.total()
            counts = +counts  # without zeros
            if spared := counts["not_needed"]:
                await progress.spare(spared, str(monitor.decision))
            if not brake.is_on:
                stop.check()
    page, built = await publish(experiment.name, plan.lake)
    await news.announce_finish(counts, page)
    if brake.is_on:
        raise IncompleteRun(str(brake))
    for end, words in _UNFINISHED.items():
        if counts[end]:
            cause = f". The cause: {brake.cause}" if brake.cause else ""
            cells = f"{counts[end]} of {plural(counts.total(), 'cell')}"
            raise IncompleteRun(f"{cells} {words}{cause}")
    check_answers(built.arms)
    if grade:
        await _judge(plan, news, page)
    ended = f"{plural(counts['done'], 'cell')} done"
    if spared:
        ended += f", {spared} not needed"
    message = f"{ended} · results of {experiment.name}"
    return Completed(message=message, data=page)  # type: ignore[return-value]  # Prefect unwraps it


async def _judge(plan: Plan, news: Announcements, page: str) -> None:
    """Check the declared gates of a finished run.

    A gate that the run before it in the history failed as well is announced no more.
    """
    gates = plan.experiment.gates
    if not gates:
        return
    history = await asyncio.to_thread(report_files.read_history, plan.lake, plan.experiment.name)
    run = next(run for run in history.runs if run.experiment == plan.experiment.name)
    failed = find_failed_gates(gates, run.arms)
    if not failed:
        return
    before = history.before(run.experiment)
    arms_before = before.arms if before else ()
    failed_before = {(gate.arm, gate.metric) for gate in find_failed_gates(gates, arms_before)}
    new = [
        gate for gate in failed if before is None or (gate.arm, gate.metric) not in failed_before
    ]
    if new:
        await news.announce_regression(new, page)
    raise GateFailed(f"{'; '.join(map(str, failed))} · {page}")


def _read_results(plan: Plan, *, grade: bool) -> tuple[Counter[str], Monitor, list[Cell]]:
    """Return the number of finished cells by result, a monitor, and the cells that are missing.

    A cell is missing if some work on it is, unless an early decision spares it.
    """
    local: dict[str, str] | None = None
    if plan.environment == "docker" and plan.experiment.execution == "local":
        images = {cell.instance.image for cell in plan.cells}
        local = ImageCache.of(plan.lake).store.find(images)
    results = CellStates(plan.lake).results(plan.cells, local, grade=grade)
    monitor = Monitor.of(plan, results)
    spared = {attempt_id_of(cell) for group in monitor.not_needed() for cell in group}
    missing = [
        cell
        for cell, result in zip(plan.cells, results, strict=True)
        if result is None and (not spared or attempt_id_of(cell) not in spared)
    ]
    return Counter(result for result in results if result is not None), monitor, missing
