"""One cell of an experiment. Also the flow behind `durabench debug`."""

from functools import partial

from prefect import flow
from prefect.states import Completed

from agent.errors import BudgetExhausted, InfrastructureError, Waiting
from flows.cells.attempts import check_image, solve_and_grade, solve_only
from flows.cells.images.preflight import PreflightFailed, PreflightGate
from flows.cells.images.schedule import scheduled
from flows.display.errors import IncompleteRun
from flows.display.terminal import say
from flows.experiments.cell_state import CellStates
from flows.experiments.declaration import Experiment
from flows.experiments.keys import attempt_id_of
from flows.experiments.plan import prepare
from flows.server.given import declared, name_run
from flows.server.logs import brief, run_log
from flows.server.slots import cell_slot
from flows.server.stopping import graceful_stop
from flows.server.turns import in_turn
from flows.storage.cleanup import swept


@flow(name="solve")
async def solve(
    experiment: Experiment | str,
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
    experiment = await declared(experiment)
    await name_run(f"{experiment.name}: {arm} · {instance_id}")
    plan = await prepare(experiment, lake)
    cell = plan.cell(arm, instance_id, repeat)
    for rebuy in plan.rebuys:
        say(str(rebuy))
    states = CellStates(plan.lake)
    known = partial(states.cell_at, grade=grade)
    async with graceful_stop() as stop:

        async def once() -> str:
            dataset, images = experiment.dataset, experiment.images
            async with (
                cell_slot(),
                swept(plan.lake),
                scheduled([cell], dataset, images, plan.lake, known, stop) as placed,
                placed(cell) as there,
            ):
                await check_image(there, PreflightGate(plan.lake), states, grade=grade)
                return await (solve_and_grade if grade else solve_only)(there, plan.lake, stop=stop)

        try:
            result = await in_turn(once, cell.label, plan.lake, stop)
        except Waiting as error:
            run_log().info("%s: %s", cell.label, error)
            return Completed(name="Waiting", message=str(error), data="waiting")  # type: ignore[return-value]
        except (InfrastructureError, BudgetExhausted, PreflightFailed) as error:
            raise IncompleteRun(f"{cell.label}: {error}") from error
    [row] = plan.lake.read("attempts", *cell.partition, attempt_id_of(cell))
    outcome = brief(result if grade else "solved", row)
    run_log().info("%s: %s", cell.label, outcome)
    return Completed(message=outcome, data=result)  # type: ignore[return-value]  # Prefect unwraps it
