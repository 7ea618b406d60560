"""The flow of a pipeline: its steps are jobs on one repository, and have one result together.

Each step is a task. Prefect draws which one waits for which, with their states.
"""

import asyncio
import json
import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from prefect import allow_failure, flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import TagsContext
from prefect.states import Completed, Failed
from prefect.transactions import CommitMode, atransaction
from prefect.utilities.annotations import quote

from agent.errors import Interrupted, one_line
from eval import git
from flows.display.errors import GateFailed, IncompleteRun
from flows.experiments.cells import Place
from flows.experiments.stop import Stop
from flows.jobs import approving, commits, rows, runs
from flows.jobs.commits import Conflict
from flows.jobs.definition import MissingOutput, Pipeline, PipelineStep, fill
from flows.jobs.flow_runs import name_pipeline_run
from flows.jobs.job import (
    await_approval,
    flow_run_id,
    is_published,
    judge,
    note_failure,
    publish_job,
    publish_report,
    solve_job,
    sum_totals,
    summarize,
)
from flows.jobs.preparing import Prepared, open_place, prepare
from flows.jobs.request import forge_token
from flows.jobs.verification import NO_EVIDENCE
from flows.server.flow_run import check_starts, end_as_state, find_own, name_run
from flows.server.logs import run_log
from flows.server.stopping import graceful_stop
from flows.storage.cleanup import clean_up_around
from flows.storage.job_names import experiment_of
from flows.storage.lake import Lake, Row

StepState = Literal["done", "failed", "waiting", "skipped"]


@flow(name="pipeline")
@end_as_state
async def pipeline(definition: Pipeline, lake: str | None = None, *, run: str | None = None) -> str:
    """Run the steps of a pipeline, and publish what they changed as one. Return the run's id.

    Each flow run is a new run. With the id of an earlier run, that run is continued: finished
    steps are kept, and nothing is bought twice.

    Args:
        definition: The repository, the arms and the steps. It holds no token.
        lake: Location of the results, as for a job.
        run: Id of the run to continue; by default a new one.

    Raises:
        DatasetError, UsageError: the repository, its forge or the definition has to be changed.
        GateFailed: a step failed, no step left a patch, or the whole breaks tests.
        IncompleteRun: a budget is exhausted; continue with a larger one.
        Interrupted: the operator asked to stop; calls in flight are recorded.
    """
    check_starts()
    flow_run = (
        find_own()
    )  # a new run has the beginning of its flow run's id, so that a retry has it too
    store, run = Lake.open(lake), run or (flow_run.id if flow_run else uuid.uuid4()).hex[:10]
    await name_run(name_pipeline_run(definition.name, run))
    request, content = runs.request_of_run(definition, run), definition.model_dump_json()
    async with (
        note_failure(store, request, pipeline=content),
        forge_token(definition),
        rows.show_life(store, run),
    ):
        prepared = await asyncio.to_thread(prepare, request, store, pipeline=content)
        row = prepared.row
        if not is_published(row, prepared.request):
            try:
                row = await _run_and_publish(_Run(definition, prepared, store), row)
            except Interrupted as error:
                again = f"here: `durabench pipeline run FILE --run {run}`"
                raise Interrupted(f"{error} ({again})") from None
    await publish_report(row, store)
    return Completed(message=summarize(row), data=run)  # type: ignore[return-value]  # Prefect unwraps it


@task(name="step", task_run_name="{step.name}", cache_policy=NO_CACHE)
async def run_step(work: "_Run", step: PipelineStep, stop: Stop) -> State[Any]:
    """Run a step, and note its state in the run."""
    # Whatever it verified is kept at once, and not only when the step has ended.
    async with atransaction(commit_mode=CommitMode.EAGER):
        return await work.try_step(step, stop)


async def _run_and_publish(work: "_Run", row: Row) -> Row:
    """Run all steps, judge the whole and publish it. Return the last row of the run."""
    store, row = work.store, await _run_all(work, row)
    while waiting := work.names("waiting"):
        if any(work.ends[name].is_asking for name in waiting):
            return row
        decision = await approving.decide(store, work.rows_of("waiting"), row["detail"])
        if decision is None:
            return row
        if not decision:
            return rows.update(store, row, state="cancelled", detail="a step was not approved")
        row = await _run_all(work, row)
    if row["commit"] is None:
        return rows.update(store, row, state="done", detail="nothing was changed")
    if work.prepared.request.approve:
        row = await await_approval(row, store)
        if row["state"] != "running":
            return row
    return await asyncio.to_thread(publish_job, work.prepared, row, store)


async def _run_all(work: "_Run", row: Row) -> Row:
    """Run the steps and judge the whole. Return the row of the run: waiting, or with the result."""
    prepared, store = work.prepared, work.store
    state = {"state": "running", "detail": "", "flow_run_id": flow_run_id()}
    row = await asyncio.to_thread(rows.update, store, row, **state)
    async with (
        graceful_stop() as stop,
        clean_up_around(store),
        open_place(prepared, store, partial(rows.report, store, row)) as place,
    ):
        await work.run_steps(stop)
        stop.check()
        row = work.note(row)
        work.check()
        if why := work.why_it_waits():
            return rows.update(store, row, state="waiting", detail=why)
        return await _judge_whole(work, row, place)


async def _judge_whole(work: "_Run", row: Row, place: Place) -> Row:
    """Combine the patches of all steps, and judge the result. Return the row of the run."""
    steps = work.rows_of("done")
    if not steps:
        raise GateFailed("no step was done")
    base, mirror = row["base_commit"], work.prepared.mirror
    try:
        head = await asyncio.to_thread(commits.combine, mirror, base, steps, row["job_id"])
    except Conflict as error:
        raise GateFailed(str(error)) from None
    patch = await asyncio.to_thread(git.diff, mirror, base, head)
    judged = await judge(work.prepared, place, work.store, patch)
    row = rows.update(
        work.store,
        row,
        verdict=judged.verdict,
        reason=judged.reason,
        verification=json.dumps(json.loads(row["verification"]) | judged.evidence),
        arm=", ".join(dict.fromkeys(step["arm"] for step in steps)),
        attempt_id=steps[-1]["attempt_id"],
        patch=patch,
        commit=None if head == base else head,
    )
    if judged.verdict == "regressed":
        raise GateFailed(
            f"the steps together break tests, and nothing is published: {judged.reason}"
        )
    return row


@dataclass(frozen=True)
class _StepEnd:
    """The end of a step in this flow run."""

    state: StepState
    row: Row | None = None
    """None if it has not started."""
    detail: str = ""
    """Why it failed."""
    is_asking: bool = False
    """True if an attempt waits for a person. A message to it continues the run."""


@dataclass
class _Run:
    """One run, and how its steps have ended."""

    definition: Pipeline
    prepared: Prepared
    store: Lake
    ends: dict[str, _StepEnd] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    """Errors that are not failures of steps, such as broken infrastructure."""

    async def run_steps(self, stop: Stop) -> None:
        """Run every step as soon as all steps that it depends on have ended."""
        self.ends.clear()
        tasks: dict[str, asyncio.Task[State[Any] | None]] = {}
        async with asyncio.TaskGroup() as group:
            for step in self.definition.ordered:
                before = [tasks[name] for name in step.depends_on]
                tasks[step.name] = group.create_task(self._run_after(before, step, stop))

    async def _run_after(
        self, before: list["asyncio.Task[State[Any] | None]"], step: PipelineStep, stop: Stop
    ) -> State[Any] | None:
        """Run a step after others. Return its state in Prefect, or None if it was skipped."""
        states = [allow_failure(await task) for task in before]
        is_blocked = any(
            self.ends[name].state in ("waiting", "skipped") for name in step.depends_on
        )
        if is_blocked or self.errors or self._fatal or stop.requested:
            self.ends[step.name] = _StepEnd("skipped")
            return None
        # As for the tasks of cells: Prefect asks the server for the limit of each tag.
        with TagsContext(current_tags=set()):
            state: State[Any] = await run_step(  # type: ignore[misc]  # of a coroutine
                quote(self), quote(step), quote(stop), wait_for=states, return_state=True
            )
        return state

    async def try_step(self, step: PipelineStep, stop: Stop) -> State[Any]:
        """Run a step, and note its end. Return its state in Prefect."""
        try:
            end = self.ends[step.name] = await self._solve_step(step, stop)
            return Completed(name=end.state.capitalize(), message=(end.row or {})["reason"])
        except (GateFailed, MissingOutput, Conflict) as error:
            row = rows.read(self.store, runs.step_id(self.id, step.name))
            self.ends[step.name] = _StepEnd("failed", row, str(error))
            run_log().info("step %s failed: %s", step.name, error)
            return Failed(message=str(error))
        except Exception as error:
            row = rows.read(self.store, runs.step_id(self.id, step.name))
            state: StepState = "skipped" if isinstance(error, Interrupted) else "failed"
            self.ends[step.name] = _StepEnd(state, row, one_line(error))
            if isinstance(error, IncompleteRun):
                again = f"change budget_usd, then `durabench pipeline run FILE --run {self.id}`"
                error = IncompleteRun(f"step {step.name}: {error} (here: {again})")
            self.errors.append(error)
            return Failed(message=str(error))

    async def _solve_step(self, step: PipelineStep, stop: Stop) -> _StepEnd:
        """Solve the job of a step on the patches that it builds on. Return its end."""
        upstream = self.definition.upstream(step.name)
        builds_on = [other.name for other in self.definition.ordered if other.name in upstream]
        mirror, base = self.prepared.mirror, self.prepared.row["base_commit"]
        name = f"begins-{runs.step_id(self.id, step.name)}"
        start = await asyncio.to_thread(
            commits.combine, mirror, base, self.rows_of("done", builds_on), name
        )
        task_text = fill(step.task, {name: self._outputs(name) for name in builds_on})
        request = runs.request_of_step(self.definition, step, self.id, task_text, start)
        async with note_failure(self.store, request, run=self.id, step=step.name):
            prepared = await asyncio.to_thread(
                prepare, request, self.store, self.prepared, run=self.id, step=step.name
            )
            row = prepared.row
            if row["state"] == "done":
                return _StepEnd("done", row)
            row = rows.update(self.store, row, state="running", flow_run_id=flow_run_id())
            row = await solve_job(prepared, row, self.store, stop)
        if row["state"] == "waiting":
            return _StepEnd("waiting", row, is_asking=True)
        if step.approval and not await asyncio.to_thread(approving.is_approved, self.store, row):
            waits = {"state": "waiting", "detail": "the patch waits for approval"}
            return _StepEnd("waiting", rows.update(self.store, row, **waits))
        if row["patch"].strip():
            commit = await asyncio.to_thread(commits.commit, mirror, row)
            row = rows.update(self.store, row, commit=commit)
        row = rows.update(self.store, row, state="done", detail="")
        return _StepEnd("done", row)

    @property
    def id(self) -> str:
        return str(self.prepared.request.job_id)

    @property
    def _fatal(self) -> list[str]:
        """The failed steps that stop the run."""
        step = self.definition.step
        return [name for name in self.names("failed") if step(name).on_failure == "stop"]

    def _outputs(self, name: str) -> dict[str, str | None]:
        row = self.ends[name].row
        if row is None or self.ends[name].state != "done":
            return {}
        partition = (experiment_of(row["job_id"]), row["arm"], row["attempt_id"])
        attempts = self.store.read("attempts", *partition)
        return runs.read_outputs(row, attempts[0] if attempts else None)

    def names(self, state: StepState) -> list[str]:
        """Return the names of the steps in a state, in order."""
        ordered = [step.name for step in self.definition.ordered if step.name in self.ends]
        return [name for name in ordered if self.ends[name].state == state]

    def rows_of(self, state: StepState, names: list[str] | None = None) -> list[Row]:
        """Return the rows of the steps in a state, in order, or of some of them."""
        chosen = [name for name in self.names(state) if names is None or name in names]
        return [row for name in chosen if (row := self.ends[name].row) is not None]

    def why_it_waits(self) -> str:
        """Return what waiting steps need from a person, in one line."""
        waiting = {name: self.ends[name] for name in self.names("waiting")}
        patches = ", ".join(name for name, end in waiting.items() if not end.is_asking)
        reasons = [f"the patch of step {patches} waits for approval"] if patches else []
        for name, end in waiting.items():
            if end.is_asking and end.row:
                reasons.append(f"step {name}: {end.row['detail']}")
        return "; ".join(reasons)

    def note(self, row: Row) -> Row:
        """Write costs and states of all steps into the row of the run. Return the new row."""
        steps = []
        for step in self.definition.ordered:
            end = self.ends[step.name]
            step_row = end.row or {}
            columns = {name: step_row.get(name) for name in ("verdict", "arm", "cost_usd")}
            detail = end.detail or step_row.get("reason") or ""
            steps.append({"name": step.name, "state": end.state, "detail": detail, **columns})
        evidence = json.dumps({**NO_EVIDENCE, "steps": steps})
        judged = [end.row for end in self.ends.values() if end.row and end.row["verdict"]]
        return rows.update(self.store, row, verification=evidence, **sum_totals(judged))

    def check(self) -> None:
        """Check that the run can continue.

        Raises:
            Exception: the error of a step, such as broken infrastructure.
            GateFailed: a step failed that stops the run.
        """
        if self.errors:
            raise min(self.errors, key=lambda error: not isinstance(error, Interrupted))
        for name in self._fatal:
            raise GateFailed(f"step {name} failed: {self.ends[name].detail}")
