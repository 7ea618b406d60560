"""Orders of clients about jobs: submit, cancel, approve, revise."""

import asyncio
import json
from typing import Any
from uuid import UUID

from agent.errors import InfrastructureError, one_line
from flows.display.errors import UsageError
from flows.jobs import rows
from flows.jobs.chats.asking import Asking, asking, in_a_line
from flows.jobs.pipelines import runs
from flows.jobs.request import Request
from flows.jobs.server import approving, job_runs, pipeline_runs
from flows.jobs.service import messages
from flows.jobs.service.board import JobStatus, asked
from flows.jobs.service.problems import Problem, not_found
from flows.jobs.service.services import Service
from flows.jobs.service.submitting import request
from flows.storage.job_names import experiment_of
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake, Row
from reports.errors import ReportError


async def submit(service: Service, wanted: Request, key: str | None) -> JobStatus:
    """Order a job. Return it.

    Raises:
        Problem: the Prefect server does not take it.
    """
    return await _ordered(service, wanted, key=f"submit-{key}" if key else None)


async def approve(service: Service, job: JobStatus) -> None:
    """Approve what waits: in its suspended flow run, otherwise in a new one that continues it.

    Raises:
        Problem: the job does not wait for approval.
    """
    row = await service.board.row(job.id)
    if asks := await asyncio.to_thread(asking, service.lake, job.id):
        await _approve_attempt(service, job, asks)
        return
    if row is None or job.state != "waiting":
        raise Problem(409, f"job {job.id} does not wait for approval: it is {job.state}")
    if row["pipeline"]:
        await asyncio.to_thread(_check_no_step_asks, service.lake, row)
    if await asked(approving.approve(row["flow_run_id"])):
        return
    # Approving twice orders one continuation.
    key = f"approve-{job.id}-{row['updated_at'].isoformat()}"
    if row["run"] or row["pipeline"]:
        await _approve_part(service, row, key)
    else:
        wanted = request(json.loads(row["request"]) | {"id": job.id})
        await _ordered(service, wanted, key=key, approved=True)


async def _approve_attempt(service: Service, job: JobStatus, asks: list[Asking]) -> None:
    """Approve the plan or the patch of the only attempt that waits for it.

    Raises:
        Problem: it waits for something else, or several wait.
    """
    if len(asks) > 1 or asks[0].wanted != "approval":
        raise Problem(409, f"{in_a_line(asks)}: answer with POST /jobs/{job.id}/messages")
    message = messages.JobMessage(kind="approve", arm=asks[0].attempt.arm)
    await messages.sent(service, job, message)


def _check_no_step_asks(lake: Lake, row: Row) -> None:
    """Check that no step of a run waits for an answer, which is not an approval of the run.

    Raises:
        Problem: one does.
    """
    steps = runs.steps_of(lake, runs.pipeline_of(row), row["job_id"])
    for name, step in steps.items():
        if asks := asking(lake, step["job_id"]):
            raise Problem(
                409,
                f"step {name}: {in_a_line(asks)}: answer with POST /jobs/{step['job_id']}/messages",
            )


async def _approve_part(service: Service, row: Row, key: str) -> None:
    """Order the continuation of a run: with a step's patch, or with its own result published."""
    whole = await service.board.row(row["run"]) if row["run"] else row
    if whole is None:
        raise not_found(f"run {row['run']!r}")
    approved = {"approved_steps": [row["step"]]} if row["run"] else {"approved": True}
    definition = runs.pipeline_of(whole)
    try:
        await asked(
            pipeline_runs.resume(service.client, definition, whole["job_id"], key, **approved)
        )
    except InfrastructureError as error:
        raise Problem(503, str(error)) from None


async def revise(service: Service, job: JobStatus, comments: str) -> JobStatus:
    """Order a job that continues another one. Return the new one.

    Raises:
        Problem: the job made no commit.
    """
    row = await service.board.row(job.id)
    if row is not None and (row["run"] or row["pipeline"]):
        raise Problem(409, f"job {job.id} is of a pipeline, and cannot be revised")
    if row is None or not row["commit"]:
        raise Problem(409, f"job {job.id} made no commit that could be revised: it is {job.state}")
    changes = {"id": None, "revises": job.id, "task": comments, "ref": None}
    wanted = request(json.loads(row["request"]) | changes)
    return await _ordered(service, wanted.model_copy(update={"id": wanted.job_id}))


async def cancel(service: Service, job: JobStatus) -> None:
    """Cancel a job or a run.

    Raises:
        Problem: it has ended.
    """
    if job.is_final:
        raise Problem(409, f"job {job.id} has ended: it is {job.state}")
    row = await service.board.row(job.id)
    if row is not None and row["run"]:
        raise Problem(409, f"job {job.id} is a step of run {row['run']}: cancel that run")
    if row is not None:
        await asyncio.to_thread(
            lambda: rows.update(service.lake, row, state="cancelled", detail="")
        )
    if job.flow_run_id:
        await asked(job_runs.cancel(service.client, UUID(job.flow_run_id)))


async def _ordered(
    service: Service, wanted: Request, *, key: str | None = None, approved: bool = False
) -> JobStatus:
    try:
        run = await asked(job_runs.order(service.client, wanted, approved=approved, key=key))
    except InfrastructureError as error:
        raise Problem(503, str(error)) from None
    return await service.board.ordered(run)


def spent(lake: Lake, job: JobStatus) -> dict[str, Any]:
    """Return the calls and the cost of a job so far, and what its attempts wait for."""
    journal = existing_journal(lake)
    attempts = journal.progress(experiment_of(job.id)) if journal else []
    calls = sum(each.calls for each in attempts)
    unpriced = sum(each.unpriced_calls for each in attempts)
    cost = sum(each.cost_usd for each in attempts)
    known = job.cost_usd if job.cost_usd is not None or unpriced else cost
    asks = [] if job.is_final else [each.as_json() for each in asking(lake, job.id)]
    return {"calls": calls, "unpriced_calls": unpriced, "cost_usd": known, "asks": asks}


def lake_problem(lake: Lake) -> str:
    """Return why the lake or its journal cannot be read, or an empty text."""
    try:
        with lake.reading():
            (lake.root / "jobs").exists()
        existing_journal(lake)
    except (InfrastructureError, UsageError, ReportError) as error:
        return one_line(error)
    return ""
