"""The routes that answer in JSON."""

import asyncio
import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from agent.errors import one_line
from flows.jobs.request import Request as JobRequest
from flows.jobs.service import orders, results
from flows.jobs.service.board import asked
from flows.jobs.service.problems import Problem
from flows.jobs.service.services import Service, Used
from flows.jobs.service.submitting import submitted

router = APIRouter()

State = Literal["scheduled", "running", "waiting", "done", "failed", "cancelled", "crashed"]

_SUBMITTED = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": JobRequest.model_json_schema()}},
    }
}


class Comments(BaseModel):
    """The comments of a reviewer on a published job."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=100_000)


@router.get("/health")
async def health(service: Used) -> JSONResponse:
    """Say whether the Prefect server and the lake answer."""
    problems = {"prefect": await _prefect_problem(service), "lake": await _lake_problem(service)}
    is_ok = not any(problems.values())
    content = {"status": "ok" if is_ok else "unavailable"}
    content |= {name: problem or "ok" for name, problem in problems.items()}
    return JSONResponse(content, 200 if is_ok else 503)


@router.post("/submit", status_code=202, openapi_extra=_SUBMITTED)
async def submit(
    request: Request, service: Used, idempotency_key: Annotated[str | None, Header()] = None
) -> dict[str, Any]:
    """Order a job. The same `Idempotency-Key` again returns the first one."""
    body = await request.body()
    wanted = submitted(as_json(request, body))
    return (await orders.submit(service, wanted, idempotency_key)).as_json()


@router.get("/status/{job_id}")
async def status(job_id: str, service: Used) -> dict[str, Any]:
    """Return the state of a job, with its cost so far."""
    job = await service.board.status(job_id)
    return {**job.as_json(), **await asyncio.to_thread(orders.spent, service.lake, job)}


class _EscapedJSON(JSONResponse):
    """JSON with escapes, which also holds a patch that is not UTF-8."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode()


@router.get("/result/{job_id}", response_class=_EscapedJSON)
async def result(job_id: str, service: Used) -> dict[str, Any]:
    """Return what a job left: patch, evidence, report, and attempts."""
    job = await service.board.status(job_id)
    if not job.is_final and job.state != "waiting":
        raise Problem(409, f"job {job.id} has no result yet: it is {job.state}")
    row = await service.board.row(job.id)
    return await asyncio.to_thread(results.result, service.lake, job, row)


@router.get("/jobs")
async def jobs(
    service: Used,
    state: State | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> dict[str, Any]:
    """Return jobs, the latest first."""
    shown = [job for job in await service.board.listed() if state in (None, job.state)]
    page = shown[offset : offset + limit]
    return {"total": len(shown), "jobs": [job.as_json() for job in page]}


@router.post("/jobs/{job_id}/cancel")
async def cancel(job_id: str, service: Used) -> dict[str, Any]:
    """Cancel a job. What it bought is kept, and submitting it again continues it."""
    job = await service.board.status(job_id)
    await orders.cancel(service, job)
    return (await service.board.status(job.id)).as_json()


@router.post("/jobs/{job_id}/approve", status_code=202)
async def approve(job_id: str, service: Used) -> dict[str, Any]:
    """Publish the patch of a job that waits for approval."""
    job = await service.board.status(job_id)
    await orders.approve(service, job)
    return (await service.board.status(job.id)).as_json()


@router.post("/jobs/{job_id}/revise", status_code=202)
async def revise(job_id: str, comments: Comments, service: Used) -> dict[str, Any]:
    """Order a job that continues a published one with review comments."""
    job = await service.board.status(job_id)
    return (await orders.revise(service, job, comments.text)).as_json()


def as_json(request: Request, body: bytes) -> Any:
    """Return the body of a request.

    Raises:
        Problem: it is not JSON, or not declared as such.
    """
    # A page of another site can send a form or text without asking, but no JSON.
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Problem(415, "send the body as JSON, with Content-Type: application/json")
    try:
        return json.loads(body)
    except ValueError as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    except RecursionError:
        raise Problem(400, "the body is nested too deep") from None


async def _prefect_problem(service: Service) -> str:
    try:
        error = await asked(service.client.api_healthcheck())
    except Problem as problem:
        return str(problem)
    return one_line(error) if error else ""


async def _lake_problem(service: Service) -> str:
    return await asyncio.to_thread(orders.lake_problem, service.lake)
