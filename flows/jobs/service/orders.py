"""Orders of clients: submit, cancel, approve and revise jobs, and send messages to them.

An impossible order raises `Problem` with a status and one line.
"""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import FlowRun
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.arms import ARMS
from agent.errors import InfrastructureError, MessageRefused, one_line
from agent.journal import Attempt, InboxMessage, MessageKind
from flows.display.errors import UsageError
from flows.experiments.declaration import in_one_line
from flows.experiments.secret_kinds import check_readable
from flows.jobs import approving, definition, deployed, flow_runs, rows, runs
from flows.jobs.definition import Pipeline
from flows.jobs.deployed import Deployed
from flows.jobs.mailbox import Mailbox, check, describe_asks, read_asks, read_open_attempts
from flows.jobs.request import OF_BENCHMARKS, Request
from flows.jobs.service import aliases
from flows.jobs.service.board import JobStatus, ask
from flows.jobs.service.feed import Service
from flows.jobs.service.guard import Problem, not_found
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake, Row
from reports.errors import ReportError

Fields = Mapping[str, Any]
"""Fields of jobs and pipelines that a client leaves out."""

BY_NAME = tuple(sorted({*ARMS} - {"command", "python", *OF_BENCHMARKS}))
"""Agents that need no options. A job may name them instead of describing an arm."""

DEFAULT_ARM = "durable"

_LONGEST_WAIT_S = 3.0
"""Time for an order and its wait for a turn. A client of a busy machine has an answer in five."""


class JobMessage(BaseModel):
    """A message to an attempt of a job."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(default="", description="the text; only `say` and `revise` need one")
    kind: MessageKind = Field(
        default="say",
        description="say: read before the next call, or an answer; approve, revise, reject: a "
        "decision on a plan or patch; end: no further call",
    )
    arm: str | None = Field(
        default=None, description="arm of the attempt; needed if several arms are at work"
    )
    sender: str = Field(default="service", description="who says it, as the model reads it")


def parse_job(read: Any, defaults: Fields) -> Request:
    """Return the job that a body of JSON describes, with an id."""
    if not isinstance(read, dict):
        raise Problem(422, "the body is not a JSON object with the fields source and task")
    body = _complete(read, defaults)
    return _validate({**body, "id": body.get("id") or uuid.uuid4().hex[:10]})


def _complete(given: dict[str, Any], defaults: Fields) -> dict[str, Any]:
    """Return the same fields with the defaults of the service, and an arm in place of each name."""
    body = {**defaults, **aliases.read_body(given)}
    try:
        check_readable(body)  # no message may repeat a secret
    except ValueError as error:
        raise Problem(422, str(error)) from None
    arms = body.get("arms", [DEFAULT_ARM])
    if not isinstance(arms, list) or not arms:
        raise Problem(422, f"arms: a list of names such as {DEFAULT_ARM!r}, or of arms")
    for arm in arms:
        if isinstance(arm, str) and arm not in BY_NAME:
            raise Problem(422, f"there is no arm {arm!r}: name {', '.join(BY_NAME)}")
    described = [{"name": arm, "agent": arm} if isinstance(arm, str) else arm for arm in arms]
    return {**body, "arms": described}


def _validate(content: dict[str, Any]) -> Request:
    try:
        return Request.model_validate(content)
    except ValidationError as error:
        raise Problem(422, in_one_line(error)) from None


def parse_pipeline(read: Any, defaults: Fields) -> Pipeline:
    """Return the definition that a body holds."""
    if not isinstance(read, dict):
        raise Problem(422, "a definition is an object with the fields name, source and steps")
    try:
        return definition.parse(_complete(read, defaults), "definition")
    except UsageError as error:
        raise Problem(422, str(error).removeprefix("definition: ")) from None


async def submit(service: Service, wanted: Request, key: str | None) -> JobStatus:
    """Order a job. Return it."""
    once = f"submit-{key}" if key else None
    run = await _place(service, partial(flow_runs.order_job, service.client, wanted, once), once)
    assert run is not None, "a job has a deployment"
    asked = wanted.model_dump(mode="json", exclude_none=True)
    if {**run.parameters["request"], "id": None} != {**asked, "id": None}:
        raise Problem(
            409, f"the Idempotency-Key {key!r} belongs to job {flow_runs.id_of(run)}, which differs"
        )
    return await service.board.read_ordered(run)


async def approve(service: Service, job: JobStatus) -> None:
    """Approve what waits: in its suspended flow run, otherwise in a new run, which continues it."""
    lake = service.lake
    row = await service.board.row(job.id)
    if asks := await asyncio.to_thread(read_asks, lake, job.id):
        if len(asks) > 1 or asks[0].wanted != "approval":
            raise Problem(409, f"{describe_asks(asks)}: answer with POST /jobs/{job.id}/messages")
        await send(service, job, JobMessage(kind="approve", arm=asks[0].attempt.arm))
        return
    if row is None or job.state != "waiting":
        raise Problem(409, f"job {job.id} does not wait for approval: it is {job.state}")
    steps: dict[str, Row] = {}
    if row["pipeline"]:
        pipeline = runs.pipeline_of(row)
        steps = await asyncio.to_thread(runs.read_steps, lake, pipeline, row["job_id"])
    for name, step in steps.items():
        if asks := await asyncio.to_thread(read_asks, lake, step["job_id"]):
            raise Problem(
                409,
                f"step {name}: {describe_asks(asks)}: answer with POST "
                f"/jobs/{step['job_id']}/messages",
            )
    if await ask(approving.approve(lake, row)):
        return
    # Approving twice orders one continuation.
    key = f"approve-{job.id}-{row['updated_at'].isoformat()}"
    await _place(service, partial(flow_runs.continue_row, service.client, lake, row, key), key)


async def revise(service: Service, job: JobStatus, comments: str) -> JobStatus:
    """Order a job that continues another one. Return the new one."""
    row = await service.board.row(job.id)
    if row is not None and row["run"]:
        raise Problem(409, f"job {job.id} is a step of run {row['run']}: revise that run")
    if row is None or not (row["commit"] or rows.is_answer(row)):
        raise Problem(409, f"job {job.id} made no commit that could be revised: it is {job.state}")
    last = await asyncio.to_thread(rows.find_last, service.lake, row)
    changes = {"id": None, "revises": last["job_id"], "task": comments, "ref": None}
    wanted = _validate(json.loads(row["request"]) | changes)
    return await submit(service, wanted.model_copy(update={"id": wanted.job_id}), None)


async def cancel(service: Service, job: JobStatus) -> None:
    """Cancel a job or a run."""
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
        await ask(flow_runs.cancel(service.client, UUID(job.flow_run_id)))


async def _place(
    service: Service, order: Callable[[], Awaitable[FlowRun | None]], key: str | None
) -> FlowRun | None:
    """Place an order with Prefect, whose SQLite has one writer, and return its flow run.

    Orders take turns. A late order is withdrawn, unless it has a key, with which its client finds
    it later.

    Raises:
        Problem: it takes too long, or the server lacks the deployment.
    """
    is_awaited, has_turn = True, False

    async def take_turn() -> FlowRun | None:
        nonlocal has_turn
        async with service.turn:
            has_turn = True
            run = await ask(order()) if is_awaited else None
        if run and not is_awaited and key is None:
            await ask(service.client.delete_flow_run(run.id))
        return run

    try:
        async with asyncio.timeout(_LONGEST_WAIT_S):
            return await asyncio.shield(asyncio.create_task(take_turn()))
    except TimeoutError:
        is_awaited = False
        why = "the Prefect server does not answer" if has_turn else "many orders arrive at once"
        raise Problem(503, f"{why}: send this one again later") from None
    except InfrastructureError as error:
        raise Problem(503, str(error)) from None


async def send(
    service: Service, job: JobStatus, message: JobMessage, key: str | None = None
) -> dict[str, Any]:
    """Send a message, and continue the job if no worker has the attempt. Return it as JSON."""
    named = InboxMessage(key or uuid.uuid4().hex, message.kind, message.text, message.sender)
    try:
        check(named)
    except MessageRefused as error:
        raise Problem(422, str(error)) from None
    attempt = await asyncio.to_thread(_find_attempt, service.lake, job, message.arm)
    mailbox = await asyncio.to_thread(Mailbox.of, service.lake, attempt.attempt_id)
    try:
        done = await asyncio.to_thread(mailbox.pass_on, named)
    except MessageRefused as error:
        raise Problem(409, str(error)) from None
    seen = await asyncio.to_thread(mailbox.get_state)
    if seen.holder is None and seen.standing != "ended":
        try:
            order = partial(
                flow_runs.continue_attempt, service.client, attempt, done.n, service.lake
            )
            await _place(service, order, done.id)
        except Problem as problem:
            said = f"the message is sent, but no worker is asked: {problem}"
            raise Problem(problem.status, said) from None
    return {
        "id": done.id,
        "n": done.n,
        "kind": done.kind,
        "text": done.text,
        "sender": done.sender,
        "arm": attempt.arm,
        "attempt": attempt.attempt_id,
        "sent_at": done.sent_at.isoformat(timespec="milliseconds") if done.sent_at else None,
    }


def _find_attempt(lake: Lake, job: JobStatus, arm: str | None) -> Attempt:
    """Return the attempt that a message is for: of an arm, or the only open one."""
    if job.is_final:
        raise Problem(409, f"job {job.id} has ended: it is {job.state}")
    attempts = read_open_attempts(lake, job.id)
    chosen = [attempt for attempt in attempts if arm in (None, attempt.arm)]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(attempt.arm for attempt in attempts)
    if chosen:
        raise Problem(422, f"several arms are at work: name one of {names} in the field arm")
    others = f": {names} {'is' if len(attempts) == 1 else 'are'}" if attempts else " so far"
    subject = f"arm {arm!r} of job {job.id} is not" if arm else f"no arm of job {job.id} is"
    raise Problem(409, f"{subject} at work{others}; the job is {job.state}")


async def deploy(pipeline: Pipeline) -> Deployed:
    """Deploy a definition. Return it with its id."""
    try:
        deployment_id = await ask(deployed.deploy(pipeline))
    except UsageError as error:
        raise Problem(422, str(error)) from None
    return Deployed(deployment_id, pipeline.name, pipeline.model_dump(mode="json"), pool=None)


async def find_pipeline(given: str) -> Deployed:
    """Return a definition by its name or by the id of its deployment."""
    for pipeline in await ask(deployed.read_deployed()):
        if given in (pipeline.name, str(pipeline.id)):
            return pipeline
    raise not_found(f"pipeline {given!r}")


async def order_run(service: Service, pipeline_id: str, key: str | None) -> str:
    """Order a run of a definition. Return its id."""
    pipeline = await find_pipeline(pipeline_id)
    if pipeline.problem:
        raise Problem(422, pipeline.problem)
    once = f"run-{key}" if key else None
    run = await _place(service, partial(deployed.order_run, service.client, pipeline, once), once)
    assert run is not None, "a pipeline has a deployment"
    return flow_runs.id_of(run)


def lake_problem(lake: Lake) -> str:
    """Return why the lake or its journal cannot be read, or an empty text."""
    try:
        with lake.reading():
            (lake.root / "jobs").exists()
        existing_journal(lake)
    except (InfrastructureError, UsageError, ReportError) as error:
        return one_line(error)
    return ""
