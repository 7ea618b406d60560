"""The routes that answer in JSON: jobs, messages to them, pipelines and their runs."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from agent.errors import one_line
from flows.display.errors import UsageError
from flows.jobs import deployed
from flows.jobs.definition import Pipeline
from flows.jobs.deployed import Deployed
from flows.jobs.mailbox import read_asks
from flows.jobs.request import Request as JobRequest
from flows.jobs.service import aliases, orders, views
from flows.jobs.service.board import JobStatus, ask
from flows.jobs.service.feed import Service, Used, read_steps
from flows.jobs.service.guard import Problem
from flows.jobs.service.orders import JobMessage

router = APIRouter()

State = Literal["scheduled", "running", "waiting", "done", "failed", "cancelled", "crashed"]
Key = Annotated[str | None, Header(alias="Idempotency-Key")]
Answer = dict[str, Any]


def _describe(body: type[BaseModel]) -> Answer:
    """Return the description of a body that a route reads by itself."""
    content = {"application/json": {"schema": body.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


class Comments(BaseModel):
    """The comments of a reviewer on a published job."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(default="", max_length=100_000)


class _EscapedJSON(JSONResponse):
    """JSON with escapes, which also holds a patch that is not UTF-8."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode()


@router.get("/health")
async def health(service: Used) -> JSONResponse:
    """Say whether the Prefect server and the lake answer."""
    try:
        error = await ask(service.client.api_healthcheck())
        problem = one_line(error) if error else ""
    except Problem as refusal:
        problem = str(refusal)
    lake_problem = await asyncio.to_thread(orders.lake_problem, service.lake)
    problems = {"prefect": problem, "lake": lake_problem}
    is_ok = not any(problems.values())
    content = {"status": "ok" if is_ok else "unavailable"}
    content |= {name: problem or "ok" for name, problem in problems.items()}
    return JSONResponse(content, 200 if is_ok else 503)


@router.post("/submit", status_code=202, openapi_extra=_describe(JobRequest))
async def submit(request: Request, service: Used, key: Key = None) -> Answer:
    """Order a job. The same `Idempotency-Key` again returns the first one."""
    wanted = orders.parse_job(_as_json(request, await request.body()), service.defaults)
    return (await orders.submit(service, wanted, key)).as_json()


@router.get("/status/{job_id}")
async def status(job_id: str, service: Used) -> Answer:
    """Return the state of a job, with its cost so far."""
    job = await service.board.status(job_id)
    return {**job.as_json(), **await asyncio.to_thread(views.sum_costs, service.lake, job)}


@router.get("/result/{job_id}", response_class=_EscapedJSON)
async def result(job_id: str, service: Used) -> Answer:
    """Return what a job left: patch, evidence, report, and attempts."""
    job = await service.board.status(job_id)
    if not job.is_final and job.state != "waiting":
        raise Problem(409, f"job {job.id} has no result yet: it is {job.state}")
    row = await service.board.row(job.id)
    return await asyncio.to_thread(views.collect_result, service.lake, job, row)


@router.get("/jobs/{job_id}/log", response_class=PlainTextResponse)
async def log(job_id: str, service: Used) -> str:
    """Return the steps of a job so far as text, one line for each."""
    job = await service.board.status(job_id)
    return aliases.write_log(await asyncio.to_thread(read_steps, service.lake, job.id))


@router.get("/jobs")
async def jobs(
    service: Used,
    state: State | None = None,
    text: str = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> Answer:
    """Return jobs, the latest first."""
    every = await service.board.list_jobs()
    chosen = [job for job in every if state in (None, job.state) and job.has(text)]
    page = chosen[offset : offset + limit]
    return {"total": len(chosen), "jobs": [job.as_json() for job in page]}


@router.post("/jobs/{job_id}/cancel")
async def cancel(job_id: str, service: Used) -> Answer:
    """Cancel a job. What it bought is kept, and submitting it again continues it."""
    return (await _order(service, orders.cancel, job_id, "job")).as_json()


@router.post("/jobs/{job_id}/approve", status_code=202)
async def approve(job_id: str, service: Used) -> Answer:
    """Publish the patch of a job that waits for approval."""
    return (await _order(service, orders.approve, job_id, "job")).as_json()


@router.post("/jobs/{job_id}/revise", status_code=202)
async def revise(job_id: str, comments: Comments, service: Used) -> Answer:
    """Order a job that continues a published one with review comments."""
    job = await service.board.status(job_id)
    return (await orders.revise(service, job, comments.text)).as_json()


@router.get("/jobs/{job_id}/messages")
async def get_messages(job_id: str, service: Used) -> Answer:
    """Return the conversations of the attempts of a job, and the questions that they wait with."""
    job = await service.board.status(job_id)
    waits = await asyncio.to_thread(read_asks, service.lake, job.id)
    messages = await asyncio.to_thread(views.list_messages, service.lake, job.id)
    return {"asks": [ask.as_json() for ask in waits], "messages": messages}


@router.post("/jobs/{job_id}/messages", status_code=202)
async def send(job_id: str, message: JobMessage, service: Used, key: Key = None) -> Answer:
    """Send a message to a job at work. The same `Idempotency-Key` again sends nothing new."""
    return await orders.send(service, await service.board.status(job_id), message, key)


@router.post("/pipelines", status_code=201, openapi_extra=_describe(Pipeline))
async def define(request: Request, service: Used) -> Answer:
    """Deploy a definition, or replace the one of its name."""
    wanted = orders.parse_pipeline(_as_json(request, await request.body()), service.defaults)
    return _show(await orders.deploy(wanted))


@router.get("/pipelines")
async def pipelines() -> Answer:
    """Return the deployed definitions by name. One that cannot be read has a problem instead."""
    answers = []
    for definition in await ask(deployed.read_deployed()):
        try:
            answers.append(_show(definition))
        except UsageError as error:
            problem = {"id": str(definition.id), "name": definition.name, "problem": str(error)}
            answers.append(problem)
    return {"pipelines": answers}


@router.get("/pipelines/{pipeline_id}")
async def pipeline(pipeline_id: str) -> Answer:
    """Return a definition by its name or by the id of its deployment."""
    return _show(await orders.find_pipeline(pipeline_id))


@router.delete("/pipelines/{pipeline_id}")
async def delete(pipeline_id: str) -> Answer:
    """Delete a definition. Its runs stay in the lake."""
    pipeline = await orders.find_pipeline(pipeline_id)
    await ask(deployed.delete(pipeline.name))
    return {"id": str(pipeline.id), "name": pipeline.name, "deleted": True}


@router.post("/pipelines/{pipeline_id}/run", status_code=202)
async def run(pipeline_id: str, service: Used, key: Key = None) -> Answer:
    """Order a run. The same `Idempotency-Key` again returns the first one."""
    return await _run_as_json(service, await orders.order_run(service, pipeline_id, key))


@router.get("/pipelines/{pipeline_id}/runs")
async def runs_of(pipeline_id: str, service: Used) -> Answer:
    """Return the runs of a pipeline, the latest first. By its name, also after it was deleted."""
    try:
        found = await orders.find_pipeline(pipeline_id)
    except Problem:
        if not (runs := await service.board.runs(pipeline_id)):
            raise
    else:
        runs = await service.board.runs(found.name, found)
    return {"runs": [run.as_json() for run in runs]}


@router.get("/runs/{run_id}")
async def run_status(run_id: str, service: Used) -> Answer:
    """Return the state of a run with its steps."""
    return await _run_as_json(service, run_id)


@router.post("/runs/{run_id}/approve", status_code=202)
async def approve_run(run_id: str, service: Used) -> Answer:
    """Publish the result of a run that waits. A step is approved as the job that it is."""
    return await _run_as_json(service, (await _order(service, orders.approve, run_id, "run")).id)


@router.post("/runs/{run_id}/cancel")
async def cancel_run(run_id: str, service: Used) -> Answer:
    """Cancel a run. What it bought is kept, and continuing it buys nothing twice."""
    return await _run_as_json(service, (await _order(service, orders.cancel, run_id, "run")).id)


async def _order(
    service: Service,
    order: Callable[[Service, JobStatus], Awaitable[None]],
    given: str,
    what: Literal["job", "run"],
) -> JobStatus:
    """Carry out an order about a job or a run. Return its state after that."""
    job = await service.board.status(given, what)
    await order(service, job)
    return await service.board.status(job.id, what)


def _as_json(request: Request, body: bytes) -> Any:
    # A page of another site can send a form or text without asking, but no JSON.
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Problem(415, "send the body as JSON, with Content-Type: application/json")
    try:
        return json.loads(body)
    except ValueError as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    except RecursionError:
        raise Problem(400, "the body is nested too deep") from None


def _show(definition: Deployed) -> Answer:
    pipeline = definition.pipeline
    return {
        "id": str(definition.id),
        **pipeline.model_dump(mode="json", exclude_none=True),
        "layers": [[step.name for step in layer] for layer in pipeline.layers],
    }


async def _run_as_json(service: Service, run_id: str) -> Answer:
    status = await service.board.status(run_id, "run")
    row = await service.board.row(status.id)
    definition, steps = await asyncio.to_thread(views.read_run, service.lake, status, row)
    return {
        **status.as_json(),
        "pipeline": definition.name if definition else None,
        "steps": steps,
    }
