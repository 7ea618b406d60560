"""One cell: an arm solves an instance in a workspace. Also the flow behind `durabench debug`."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Failed

from agent import models
from agent.arms import ARMS
from agent.errors import BudgetExhausted, InfrastructureError, Interrupted
from agent.journal import Journal, Lease, Limit
from agent.journal.holding import free, held
from agent.journal.pacing import Pace, Sending
from agent.models.spec import ModelSpec
from agent.session.log import JournalLog
from agent.session.session import Session
from agent.session.steps import Step, from_record
from agent.types import Outcome
from flows.errors import IncompleteRun, UsageError
from flows.experiments import records, workspaces
from flows.experiments.cell_state import REFUSED, cell_at, submission
from flows.experiments.cells import Cell
from flows.experiments.declaration import Experiment
from flows.experiments.keys import attempt_key, is_cached
from flows.experiments.plan import prepare
from flows.experiments.stop import Stop
from flows.grade import graded
from flows.images.schedule import scheduled
from flows.server.caching import kept, result_storage
from flows.server.retry import cell_slot
from flows.server.step_task_runs import shown_as_task_runs
from flows.server.stopping import graceful_stop
from flows.server.turns import in_turn
from flows.storage.cleanup import swept
from flows.storage.journals import (
    Home,
    blobs,
    check_home,
    open_journal,
)
from flows.storage.lake import Lake

if TYPE_CHECKING:
    from flows.images.preflight import Gate

on_step: ContextVar[Callable[[Cell, Step], None]] = ContextVar(
    "on_step", default=lambda cell, step: None
)
"""Callback after every step of an attempt; set by code that shows progress."""


@kept("attempt", "{cell.label}", lambda parameters: attempt_key(parameters["cell"]))
async def attempt(cell: Cell, lake: Lake, stop: Stop | None = None) -> str:
    """Solve a cell, resuming an earlier run of it. Return the attempt id.

    Steps are written to the journal as they happen, rows to the lake when the attempt ends. `stop`
    is the stop request of the run, if the run has one.

    Raises:
        InfrastructureError: the attempt cannot continue now; recorded, never cached.
        Interrupted: the operator asked to stop.
        LeaseHeld: another run is working on the cell.
    """
    stop = stop or Stop()
    stop.check()
    journal = await asyncio.to_thread(open_journal, lake)
    attempt_id = attempt_key(cell)[:32]
    await asyncio.to_thread(journal.start, records.journaled(cell, attempt_id))
    async with held(journal, attempt_id) as lease:
        if await asyncio.to_thread(journal.pruned_at, attempt_id) is not None:
            await asyncio.to_thread(_check_rows, cell, attempt_id, lake)
            return attempt_id
        if await asyncio.to_thread(_is_filed, cell, journal, attempt_id, lake):
            return attempt_id
        clock = _Clock()

        async def finish(outcome: Outcome | records.Interruption, run: records.Run) -> None:
            recorded = await asyncio.to_thread(journal.steps, attempt_id)
            account = await asyncio.to_thread(journal.account, attempt_id)
            finished = records.AttemptRecord(
                attempt_id,
                cell,
                outcome,
                [from_record(step) for step in recorded if step.result is not None],
                account.billed_usd,
                run,
            )
            # Only the lease holder writes rows: a run that lost its lease must not overwrite its
            # successor's.
            await asyncio.to_thread(journal.check, lease)
            records.write(lake, finished)

        try:
            outcome, run = await _carried_on(cell, journal, lease, lake, clock, stop)
        except BudgetExhausted as error:
            await finish(records.Interruption("budget_stop", str(error)), clock.run)
            raise
        except Interrupted as error:
            await finish(records.Interruption("interrupted", str(error)), clock.run)
            raise
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            await finish(records.Interruption("infrastructure", told), clock.run)
            raise
        await finish(outcome, run)
    return attempt_id


def _is_filed(cell: Cell, journal: Journal, attempt_id: str, lake: Lake) -> bool:
    """Return True if the attempt has ended and its rows are written. They are then final."""
    ended = journal.outcome(attempt_id)
    tables = ("attempts", "predictions")
    if ended is None or not all(lake.has(table, *cell.partition, attempt_id) for table in tables):
        return False
    [row] = lake.read("attempts", *cell.partition, attempt_id)
    return bool(row["outcome"] == json.loads(ended)["status"])


def _check_rows(cell: Cell, attempt_id: str, lake: Lake) -> None:
    """Check that the lake has the rows that can only be written from the attempt's pruned steps.

    Raises:
        InfrastructureError: a row is missing.
    """
    for table in ("attempts", "predictions"):
        if not lake.has(table, *cell.partition, attempt_id):
            raise InfrastructureError(
                f"attempt {attempt_id} has ended, but its row in `{table}` is gone from "
                f"{lake.root} and its steps were pruned from the journal: bring the row back from "
                "a copy, or run under another --name, which buys everything again",
                retryable=False,
            )


class _Clock:
    """Time of a run since this object was created."""

    def __init__(self) -> None:
        self._started_at, self._began = datetime.now(UTC), time.perf_counter()

    @property
    def run(self) -> records.Run:
        """Start time and duration up to now."""
        return records.Run(self._started_at, time.perf_counter() - self._began)


async def _carried_on(
    cell: Cell, journal: Journal, lease: Lease, lake: Lake, clock: _Clock, stop: Stop
) -> tuple[Outcome, records.Run]:
    """Return the recorded outcome, or replay the arm over the recorded steps.

    The second value is the run that reached the outcome: an earlier one if only the rows are
    missing.
    """
    ended = await asyncio.to_thread(journal.outcome, lease.attempt_id)
    if ended is not None:
        return records.from_ended(ended, clock.run)
    recorded = await asyncio.to_thread(journal.steps, lease.attempt_id)
    log = JournalLog(journal, lease, blobs(lake), recorded, _limits(cell, lease), stop.sleep)
    outcome = await _solve(cell, log, stop)
    run = clock.run
    await asyncio.to_thread(journal.end, lease, records.ended(outcome, run))
    return outcome, run


def _limits(cell: Cell, lease: Lease) -> tuple[Limit, ...]:
    """Return the budgets that the attempt's calls count against."""
    experiment, arm = cell.partition
    names = {
        "attempt": lease.attempt_id,
        "arm": f"{experiment}/{arm}",
        "experiment": experiment,
    }
    return tuple(
        Limit(kind, names[kind], budget.usd, budget.calls)
        for kind, budget in cell.experiment.budgets.items()
    )


async def _solve(cell: Cell, log: JournalLog, stop: Stop) -> Outcome:
    show, attempt_id = on_step.get(), log.lease.attempt_id
    spec = cell.experiment.model_of(cell.arm)
    built = _models(cell, spec, log.journal, stop) if spec else {}
    origin = await asyncio.to_thread(_origin, log.journal, attempt_id)
    async with Session(
        attempt_id=attempt_id,
        models=built,
        workspaces=workspaces.AttemptWorkspaces(
            cell.instance, cell.place, attempt_id, log.journal.id, origin
        ),
        log=log,
        on_step=lambda step: show(cell, step),
        may_go_on=stop.check,
        limit_s=cell.arm.options.time_limit_s,
    ) as session:
        return await ARMS[cell.arm.agent].solve(cell.task, session, cell.arm.options)


def _models(cell: Cell, own: ModelSpec, journal: Journal, stop: Stop) -> dict[str, models.Model]:
    """Return the model of each role. Roles without a model of their own share one."""
    limits = cell.experiment.rate_limits
    pace = Pace(journal, limits, stop.sleep) if limits else None
    sending = Sending(stop.check, stop.sleep, pace)
    specs = cell.arm.options.models(own)
    return {role: models.build(spec, cell.task, cell.seed, sending) for role, spec in specs.items()}


def _origin(journal: Journal, attempt_id: str) -> str:
    """Return the id of the original attempt of a chain of forks.

    Its paths appear in the conversation.
    """
    while (attempt := journal.attempt(attempt_id)) is not None and attempt.parent_id is not None:
        attempt_id = attempt.parent_id
    return attempt_id


async def work(cell: Cell, gate: "Gate", lake: Lake, stop: Stop, *, grade: bool) -> str:
    """Do the remaining work of a cell whose image is local. Return its result.

    Raises:
        Refused: the image failed the preflight.
        InfrastructureError, BudgetExhausted, Interrupted: a later run resumes from there.
        LeaseHeld: another run is working on the cell.
    """
    here = cell.place.image_digest
    if cell.experiment.preflight and cell_at(cell, here, lake, grade=grade) is None:
        await gate.check(cell)
    return await (solve_and_grade if grade else solve_only)(cell, lake, stop)


async def solve_and_grade(cell: Cell, lake: Lake, stop: Stop) -> str:
    """Solve and grade a cell. Return the outcome of the grading."""
    attempt_id = await solve_only(cell, lake, stop)
    stop.check()
    return await graded(submission(cell, attempt_id, lake), lake, twice=cell.experiment.audit)


async def solve_only(cell: Cell, lake: Lake, stop: Stop) -> str:
    """Solve a cell without grading it. Return the attempt id.

    Raises:
        LeaseHeld: another run is working on the cell.
    """
    key = attempt_key(cell)
    if not await asyncio.to_thread(is_cached, "attempt", key, lake):
        # The task would raise LeaseHeld as well, but count as failed.
        await free(await asyncio.to_thread(open_journal, lake), key[:32])
    kept = attempt.with_options(result_storage=await result_storage(lake))
    attempt_id = await kept(cell, lake, stop)
    if not lake.has("attempts", *cell.partition, attempt_id):
        # Prefect still has the cached result of an attempt whose rows were removed.
        attempt_id = await kept.with_options(refresh_cache=True)(cell, lake, stop)
    return attempt_id


@flow(name="solve", flow_run_name="{experiment.name}: {arm} · {instance_id}")
async def solve(
    experiment: Experiment,
    instance_id: str,
    arm: str,
    repeat: int = 0,
    lake: str | None = None,
    *,
    grade: bool = True,
    trace: Literal["off", "steps"] = "off",
    home: Home | None = None,
) -> str | State[str]:
    """Solve and grade one cell of an experiment. Recorded results are reused.

    Args:
        experiment: The experiment that the cell belongs to.
        instance_id: Id of the instance.
        arm: Name of the arm.
        repeat: Index of the attempt, counted from 0, if cells repeat.
        lake: Location of the results, a folder as the worker sees it or s3://…; by default the
            worker's DURABENCH_LAKE.
        grade: Grade the patch now, or leave that to a later run.
        trace: With `steps`, every step is a task run with its input and result.
        home: The lake and the journal of the benchmark that scheduled the cell; set by the
            benchmark. A worker that uses others refuses the cell.

    Raises:
        IncompleteRun: the infrastructure failed, a budget is exhausted or the image failed the
            preflight; run again to continue.
        Interrupted: the operator asked to stop; calls in flight are recorded.
    """
    from flows.images.preflight import Gate, Refused

    if home is not None:
        try:
            await asyncio.to_thread(check_home, Lake.existing(lake), home)
        except UsageError as error:
            return Failed(name=REFUSED, message=str(error))
    plan = await prepare(experiment, lake)
    cell = plan.cell(arm, instance_id, repeat)
    known = partial(cell_at, lake=plan.lake, grade=grade)
    async with graceful_stop() as stop:

        async def once() -> str:
            dataset, images = experiment.dataset, experiment.images
            shown = shown_as_task_runs(on_step) if trace == "steps" else nullcontext()
            async with (
                cell_slot(),
                swept(plan.lake),
                shown,
                scheduled([cell], dataset, images, plan.lake, known, stop) as placed,
                placed(cell) as there,
            ):
                return await work(there, Gate(plan.lake), plan.lake, stop, grade=grade)

        try:
            return await in_turn(once, cell.label, plan.lake, stop)
        except (InfrastructureError, BudgetExhausted, Refused) as error:
            raise IncompleteRun(f"{cell.label}: {error}") from error
