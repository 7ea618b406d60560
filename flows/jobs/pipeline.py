"""The flow of a pipeline: steps that are jobs on one repository, and one result of all of them."""

import asyncio
import json
import uuid
from dataclasses import dataclass, field
from typing import Literal

from prefect import flow
from prefect.context import FlowRunContext
from prefect.states import Completed

from agent.errors import Interrupted
from eval import git
from flows.display.errors import GateFailed, IncompleteRun
from flows.experiments.cells import Place
from flows.experiments.stop import Stop
from flows.jobs import commits, rows
from flows.jobs.job import (
    decided_on,
    flow_run_id,
    is_published,
    judge,
    published,
    show,
    solved,
    summary,
    totals,
)
from flows.jobs.pipelines import combining, runs, templates
from flows.jobs.pipelines.combining import Conflict
from flows.jobs.pipelines.definition import Pipeline, PipelineStep
from flows.jobs.pipelines.templates import MissingOutput
from flows.jobs.placing import placed
from flows.jobs.preparing import Prepared, prepare
from flows.jobs.server import approving
from flows.jobs.server.forge_tokens import forge_token
from flows.jobs.server.pipeline_runs import name_of
from flows.jobs.verification import NO_EVIDENCE
from flows.server.given import check_beginnings, name_run
from flows.server.logs import run_log
from flows.server.stopping import graceful_stop
from flows.storage.cleanup import swept
from flows.storage.job_names import experiment_of
from flows.storage.lake import Lake, Row

StepState = Literal["done", "failed", "waiting", "skipped"]


@flow(name="pipeline")
async def pipeline(
    definition: Pipeline,
    lake: str | None = None,
    *,
    run: str | None = None,
    approved_steps: list[str] | None = None,
    approved: bool = False,
) -> str:
    """Run the steps of a pipeline, and publish what they changed as one. Return the run's id.

    Each flow run is a run of its own. With the id of an earlier one, that is continued: finished
    steps are kept, and nothing is bought twice.

    Args:
        definition: The repository, the arms and the steps. It holds no token.
        lake: Location of the results, as for a job.
        run: Id of the run to continue; by default a new one.
        approved_steps: Names of waiting steps whose patches are approved.
        approved: Publish a result that waits for approval.

    Raises:
        DatasetError, UsageError: the repository, its forge or the definition has to be changed.
        GateFailed: a step failed, no step left a patch, or the whole breaks tests.
        IncompleteRun: a budget is exhausted; continue with a larger one.
        Interrupted: the operator asked to stop; calls in flight are recorded.
    """
    check_beginnings()
    store, run = Lake.open(lake), run or _new_id()
    await name_run(name_of(definition.name, run))
    async with forge_token(definition):
        request = runs.request_of_run(definition, run)
        prepared = await asyncio.to_thread(
            prepare, request, store, pipeline=definition.model_dump_json()
        )
        row = prepared.row
        if not is_published(row, prepared.request):
            work = _Run(definition, prepared, store, set(approved_steps or ()))
            row = await _carried_out(work, row, approved=approved)
    await show(row, store)
    return Completed(message=summary(row), data=run)  # type: ignore[return-value]  # Prefect unwraps it


def _new_id() -> str:
    """Return the id of a new run: the beginning of its flow run's, so that a retry has it too."""
    context = FlowRunContext.get()
    flow_run = context.flow_run if context else None
    return (flow_run.id if flow_run else uuid.uuid4()).hex[:10]


async def _carried_out(work: "_Run", row: Row, *, approved: bool) -> Row:
    """Run all steps, judge the whole and publish it. Return the last row of the run."""
    store, row = work.store, await _made(work, row)
    while waiting := work.names("waiting"):
        if work.asking:
            return row
        decision = await approving.decided("-".join(["steps", *waiting]), row["detail"])
        if decision is None:
            return row
        if not decision:
            return rows.update(store, row, state="cancelled", detail="a step was not approved")
        work.approved |= {*waiting}
        row = await _made(work, row)
    if work.prepared.request.approve and not approved:
        row = await decided_on(row, store)
        if row["state"] != "running":
            return row
    return await asyncio.to_thread(published, work.prepared, row, store)


async def _made(work: "_Run", row: Row) -> Row:
    """Run the steps and judge the whole. Return the row of the run: waiting, or with the result.

    Raises:
        GateFailed, IncompleteRun, Interrupted: as in `pipeline`. The row says why.
    """
    prepared, store = work.prepared, work.store
    begun = {"state": "running", "detail": "", "flow_run_id": flow_run_id()}
    row = await asyncio.to_thread(rows.update, store, row, **begun)
    try:
        async with graceful_stop() as stop, swept(store), placed(prepared, store) as place:
            await work.all_steps(stop)
            stop.check()
            row = work.noted(row)
            work.check()
            if waiting := work.names("waiting"):
                return rows.update(store, row, state="waiting", detail=work.why_it_waits(waiting))
            return await _whole(work, row, place)
    except Exception as error:
        ended = {"state": "failed"} if isinstance(error, GateFailed) else {}
        rows.update(store, row, detail=str(error), **ended)
        raise


async def _whole(work: "_Run", row: Row, place: Place) -> Row:
    """Combine the patches of all steps, and judge the result. Return the row of the run.

    Raises:
        GateFailed: there is no patch, patches do not fit together, or the result breaks tests.
    """
    steps = work.changed([step.name for step in work.definition.ordered])
    if not steps:
        raise GateFailed("no step left a patch")
    base, mirror = row["base_commit"], work.prepared.mirror
    try:
        head = await asyncio.to_thread(combining.combined, mirror, base, steps, row["job_id"])
    except Conflict as error:
        raise GateFailed(str(error)) from None
    patch = await asyncio.to_thread(git.diff, mirror, base, head)
    judged = await judge(work.prepared, place, work.store, patch)
    evidence = json.loads(row["verification"]) | judged.evidence
    row = rows.update(
        work.store,
        row,
        verdict=judged.verdict,
        reason=judged.reason,
        verification=json.dumps(evidence),
        arm=", ".join(dict.fromkeys(step["arm"] for step in steps)),
        attempt_id=steps[-1]["attempt_id"],
        patch=patch,
        commit=head,
    )
    if judged.verdict == "regressed":
        raise GateFailed(
            f"the steps together break tests, and nothing is published: {judged.reason}"
        )
    return row


@dataclass
class _Run:
    """One run: the states of its steps, and their rows."""

    definition: Pipeline
    prepared: Prepared
    store: Lake
    approved: set[str]
    states: dict[str, StepState] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    """Why a step failed."""
    errors: list[Exception] = field(default_factory=list)
    """Errors that are no failures of steps, such as broken infrastructure."""
    is_stopped: bool = False
    """True if no further step may begin."""
    asking: set[str] = field(default_factory=set)
    """Steps with an attempt that waits for a person. A message to it continues the run."""

    @property
    def id(self) -> str:
        return str(self.prepared.request.job_id)

    async def all_steps(self, stop: Stop) -> None:
        """Run every step as soon as those that it depends on have ended."""
        tasks: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            for step in self.definition.ordered:
                before = [tasks[name] for name in step.depends_on]
                tasks[step.name] = group.create_task(self._after(before, step, stop))

    async def _after(
        self, before: list["asyncio.Task[None]"], step: PipelineStep, stop: Stop
    ) -> None:
        for task in before:
            await task
        held = any(self.states[name] in ("waiting", "skipped") for name in step.depends_on)
        if held or self.is_stopped or stop.requested:
            self.states[step.name] = "skipped"
            return
        try:
            self.states[step.name] = await self._step(step, stop)
        except (GateFailed, MissingOutput, Conflict) as error:
            self.states[step.name], self.details[step.name] = "failed", str(error)
            row = rows.read(self.store, runs.step_id(self.id, step.name))
            self.rows |= {step.name: row} if row else {}
            self.is_stopped = self.is_stopped or step.on_failure == "stop"
            run_log().info("step %s failed: %s", step.name, error)
        except IncompleteRun as error:
            self._break_off(step, IncompleteRun(f"step {step.name}: {error} ({self._again})"))
        except Exception as error:
            self._break_off(step, error)

    def _break_off(self, step: PipelineStep, error: Exception) -> None:
        self.states[step.name], self.is_stopped = "skipped", True
        self.errors.append(error)

    @property
    def _again(self) -> str:
        """The command that continues this run after a change of its definition."""
        return f"here: change budget_usd, then `durabench pipeline run FILE --run {self.id}`"

    async def _step(self, step: PipelineStep, stop: Stop) -> StepState:
        """Carry out a step. Return its state.

        Raises:
            GateFailed, MissingOutput, Conflict: the step failed.
        """
        upstream = self.definition.upstream(step.name)
        builds_on = [each.name for each in self.definition.ordered if each.name in upstream]
        mirror, base = self.prepared.mirror, self.prepared.row["base_commit"]
        identity = runs.step_id(self.id, step.name)
        begins = await asyncio.to_thread(
            combining.combined, mirror, base, self.changed(builds_on), f"begins-{identity}"
        )
        task = templates.filled(step.task, {name: self._outputs(name) for name in builds_on})
        request = runs.request_of_step(self.definition, step, self.id, task, begins)
        prepared = await asyncio.to_thread(
            prepare, request, self.store, self.prepared, run=self.id, step=step.name
        )
        row = self.rows[step.name] = prepared.row
        if row["state"] == "done":
            return "done"
        begun = {"state": "running", "flow_run_id": flow_run_id()}
        row = self.rows[step.name] = rows.update(self.store, row, **begun)
        row = self.rows[step.name] = await solved(prepared, row, self.store, stop)
        self.asking.discard(step.name)
        if row["state"] == "waiting":
            self.asking.add(step.name)
            return "waiting"
        if step.approval and step.name not in self.approved:
            waits = {"state": "waiting", "detail": "the patch waits for approval"}
            self.rows[step.name] = rows.update(self.store, row, **waits)
            return "waiting"
        made = await asyncio.to_thread(commits.commit, mirror, row)
        self.rows[step.name] = rows.update(self.store, row, state="done", detail="", commit=made)
        return "done"

    def _outputs(self, name: str) -> dict[str, str | None]:
        row = self.rows.get(name)
        if row is None or self.states[name] != "done":
            return {}
        partition = (experiment_of(row["job_id"]), row["arm"], row["attempt_id"])
        found = self.store.read("attempts", *partition)
        return runs.outputs(row, found[0] if found else None)

    def changed(self, names: list[str]) -> list[Row]:
        """Return the rows of those steps that ended with a patch, in the order given."""
        return [self.rows[name] for name in names if self.states[name] == "done"]

    def names(self, state: StepState) -> list[str]:
        """Return the names of the steps in a state."""
        return [step.name for step in self.definition.ordered if self.states[step.name] == state]

    def why_it_waits(self, waiting: list[str]) -> str:
        """Return what the steps that wait need of a person, in one line."""
        patches = [name for name in waiting if name not in self.asking]
        said = [f"the patch of step {', '.join(patches)} waits for approval"] if patches else []
        asked = [
            f"step {name}: {self.rows[name]['detail']}" for name in waiting if name in self.asking
        ]
        return "; ".join([*said, *asked])

    def noted(self, row: Row) -> Row:
        """Write costs and states of all steps into the row of the run. Return the new row."""
        steps = runs.in_short(self.definition, self.rows, self.states, self.details)
        verification = json.dumps({**NO_EVIDENCE, "steps": steps})
        known = [row for row in self.rows.values() if row["verdict"] is not None]
        return rows.update(self.store, row, verification=verification, **totals(known))

    def check(self) -> None:
        """Check that the run can continue.

        Raises:
            Exception: the error of a step, such as broken infrastructure.
            GateFailed: a step failed that stops the run.
        """
        if self.errors:
            stopped = [error for error in self.errors if isinstance(error, Interrupted)]
            raise (stopped or self.errors)[0]
        if self.is_stopped:
            stopping = [
                name for name in self.names("failed")
                if self.definition.step(name).on_failure == "stop"
            ]  # fmt: skip
            raise GateFailed(f"step {stopping[0]} failed: {self.details[stopping[0]]}")
