"""One cell of an experiment. Also the flow behind `durabench debug`."""

from prefect import flow
from prefect.states import Completed

from flows.cells.loop import run_here
from flows.display.errors import IncompleteRun
from flows.display.terminal import say
from flows.experiments.declaration import ExperimentSource
from flows.experiments.keys import attempt_id_of
from flows.experiments.plan import prepare
from flows.server.flow_run import end_as_state, name_run, parse_declaration
from flows.server.logs import brief, run_log
from flows.server.stopping import graceful_stop


@flow(name="solve")
@end_as_state
async def solve(
    experiment: ExperimentSource,
    instance_id: str,
    arm: str,
    repeat: int = 0,
    lake: str | None = None,
    *,
    grade: bool = True,
) -> str:
    """Solve and grade one cell of an experiment. Recorded results are reused.

    Args:
        experiment: The experiment that the cell belongs to, the path of its file as the worker sees
            it, or the name of a Prefect Variable that holds it.
        instance_id: Id of the instance.
        arm: Name of the arm.
        repeat: Index of the attempt, counted from 0, if cells repeat.
        lake: Location of the results, a folder as the worker sees it or s3://…; by default the
            worker's DURABENCH_LAKE.
        grade: Grade the patch now, or leave that to a later run.

    Raises:
        UsageError: the experiment, its file or its Variable cannot be used.
        IncompleteRun: the infrastructure failed, a budget is exhausted or the image failed the
            preflight; run again to continue.
        Interrupted: the operator asked to stop; calls in flight are recorded.
    """
    experiment = await parse_declaration(experiment)
    await name_run(f"{experiment.name}: {arm} · {instance_id}")
    plan = await prepare(experiment, lake)
    cell = plan.cell(arm, instance_id, repeat)
    for rebuy in plan.rebuys:
        say(str(rebuy))
    async with graceful_stop() as stop:
        end, result = await run_here(plan, cell, stop, grade=grade)
        stop.check()
    if end == "waiting":
        run_log().info("%s: %s", cell.label, result)
        return Completed(name="Waiting", message=result, data=end)  # type: ignore[return-value]
    if end != "done":
        raise IncompleteRun(f"{cell.label}: {result}")
    [row] = plan.lake.read("attempts", *cell.partition, attempt_id_of(cell))
    outcome = brief(result if grade else "solved", row)
    run_log().info("%s: %s", cell.label, outcome)
    return Completed(message=outcome, data=result)  # type: ignore[return-value]  # Prefect unwraps it
