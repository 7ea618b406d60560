"""The routes of pipelines: definitions, which are deployments, and their runs."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request

from flows.display.errors import UsageError
from flows.jobs.pipelines import definition, runs
from flows.jobs.pipelines.definition import Pipeline
from flows.jobs.server import pipeline_runs, pipelines
from flows.jobs.server.pipelines import Deployed
from flows.jobs.service import orders
from flows.jobs.service.board import JobStatus, asked
from flows.jobs.service.problems import Problem, not_found
from flows.jobs.service.routes import as_json
from flows.jobs.service.services import Service, Used
from flows.jobs.service.submitting import with_named_arms
from flows.storage.lake import Lake, Row

router = APIRouter()

_DEFINED = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": Pipeline.model_json_schema()}},
    }
}


@router.post("/pipelines", status_code=201, openapi_extra=_DEFINED)
async def define(request: Request) -> dict[str, Any]:
    """Deploy a definition, or replace the one of its name."""
    body = await request.body()
    return shown(await deploy(defined(as_json(request, body))))


@router.get("/pipelines")
async def listed() -> dict[str, Any]:
    """Return the deployed definitions by name. One that cannot be read has a problem instead."""
    return {"pipelines": [_listed(each) for each in await deployed()]}


@router.get("/pipelines/{pipeline_id}")
async def one(pipeline_id: str) -> dict[str, Any]:
    """Return a definition by its name or by the id of its deployment."""
    return shown(await named(pipeline_id))


@router.delete("/pipelines/{pipeline_id}")
async def delete(pipeline_id: str) -> dict[str, Any]:
    """Delete a definition. Its runs stay in the lake."""
    found = await named(pipeline_id)
    await asked(pipelines.delete(found.name))
    return {"id": str(found.id), "name": found.name, "deleted": True}


@router.post("/pipelines/{pipeline_id}/run", status_code=202)
async def run(
    pipeline_id: str, service: Used, idempotency_key: Annotated[str | None, Header()] = None
) -> dict[str, Any]:
    """Order a run. The same `Idempotency-Key` again returns the first one."""
    return await run_as_json(service, await order(service, pipeline_id, idempotency_key))


@router.get("/pipelines/{pipeline_id}/runs")
async def runs_of(pipeline_id: str, service: Used) -> dict[str, Any]:
    """Return the runs of a pipeline, the latest first."""
    found = await service.board.runs(await named(pipeline_id))
    return {"runs": [each.as_json() for each in found]}


@router.get("/runs/{run_id}")
async def run_status(run_id: str, service: Used) -> dict[str, Any]:
    """Return the state of a run with its steps."""
    return await run_as_json(service, run_id)


@router.post("/runs/{run_id}/approve", status_code=202)
async def approve(run_id: str, service: Used) -> dict[str, Any]:
    """Publish the result of a run that waits. A step is approved as the job that it is."""
    run = await service.board.run(run_id)
    await orders.approve(service, run)
    return await run_as_json(service, run.id)


@router.post("/runs/{run_id}/cancel")
async def cancel(run_id: str, service: Used) -> dict[str, Any]:
    """Cancel a run. What it bought is kept, and continuing it buys nothing twice."""
    run = await service.board.run(run_id)
    await orders.cancel(service, run)
    return await run_as_json(service, run.id)


def defined(read: Any) -> Pipeline:
    """Return the definition that a body holds.

    Raises:
        Problem: it is none, or it holds a secret.
    """
    if not isinstance(read, dict):
        raise Problem(422, "a definition is an object with the fields name, source and steps")
    try:
        return definition.parse(with_named_arms(read), "definition")
    except UsageError as error:
        raise Problem(422, str(error).removeprefix("definition: ")) from None


async def deploy(pipeline: Pipeline) -> Deployed:
    """Deploy a definition. Return it with its id.

    Raises:
        Problem: the flows are not deployed, or the Prefect server refuses it.
    """
    try:
        deployment_id = await asked(pipelines.deploy(pipeline))
    except UsageError as error:
        raise Problem(422, str(error)) from None
    return Deployed(deployment_id, pipeline.name, pipeline.model_dump(mode="json"))


async def deployed() -> list[Deployed]:
    """Return the deployed definitions by name."""
    return await asked(pipelines.deployed())


async def named(given: str) -> Deployed:
    """Return a definition by its name or by the id of its deployment.

    Raises:
        Problem: there is no such pipeline.
    """
    for each in await deployed():
        if given in (each.name, str(each.id)):
            return each
    raise not_found(f"pipeline {given!r}")


async def order(service: Service, pipeline_id: str, key: str | None) -> str:
    """Order a run of a definition. Return its id.

    Raises:
        Problem: there is no such pipeline, or this version cannot read it.
    """
    found = await named(pipeline_id)
    if found.problem:
        raise Problem(422, found.problem)
    once = f"run-{key}" if key else None
    return await asked(pipeline_runs.order(service.client, found.id, once))


def _listed(found: Deployed) -> dict[str, Any]:
    try:
        return shown(found)
    except UsageError as error:
        return {"id": str(found.id), "name": found.name, "problem": str(error)}


def shown(found: Deployed) -> dict[str, Any]:
    """Return a definition as JSON, with its id and its layers."""
    pipeline = found.pipeline
    layers = [[step.name for step in layer] for layer in pipeline.layers]
    return {
        "id": str(found.id),
        **pipeline.model_dump(mode="json", exclude_none=True),
        "layers": layers,
    }


async def run_as_json(service: Service, run_id: str) -> dict[str, Any]:
    """Return a run with its steps as JSON.

    Raises:
        Problem: there is no such run.
    """
    status = await service.board.run(run_id)
    row = await service.board.row(status.id)
    steps = await asyncio.to_thread(steps_of, service.lake, status, row)
    name = runs.pipeline_of(row).name if row and row["pipeline"] else None
    return {**status.as_json(), "pipeline": name, "steps": steps}


def steps_of(lake: Lake, status: JobStatus, row: Row | None) -> list[dict[str, Any]]:
    """Return the steps of a run with their states; none before it has begun.

    Raises:
        Problem: the id is that of a job.
    """
    if row is None:
        return []
    if not row["pipeline"]:
        raise not_found(f"run {status.id!r}; it is a job: see /status/{status.id}")
    found = runs.states(row, lake)
    for step in found:
        if step["state"] == "running" and status.is_final:
            step["state"] = "interrupted"
        if step["state"] == "skipped" and not status.is_final:
            step["state"] = "pending"
    return found
