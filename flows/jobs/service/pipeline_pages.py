"""The pages of pipelines: definitions, and runs with their steps."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from prefect.utilities.urls import url_for

from flows.display.errors import UsageError
from flows.experiments.declaration import from_yaml
from flows.jobs.pipelines import runs
from flows.jobs.pipelines.definition import Pipeline
from flows.jobs.service import dag, forms, orders, pipelines, showing
from flows.jobs.service.board import JobStatus
from flows.jobs.service.problems import Problem
from flows.jobs.service.rendering import page
from flows.jobs.service.results import evidence
from flows.jobs.service.services import Used
from flows.storage.lake import Lake, Row

router = APIRouter(include_in_schema=False)

PIPELINES, NEW, RUNS = "/ui/pipelines", "/ui/new-pipeline", "/ui/runs"

EXAMPLE = """\
name: drop-python-3-8
source: owner/name
publish: pull_request
model: openai/gpt-5-mini
arms: [durable]
steps:
  - name: raise-minimum
    task: Raise the minimum version of Python to 3.9.
  - name: simplify-types
    task: Use the types of Python 3.9, such as list[str].
    depends_on: [raise-minimum]
  - name: remove-backports
    task: Remove code that is for Python 3.8 only.
    depends_on: [raise-minimum]
    on_failure: continue
  - name: write-changelog
    task: "Describe the change. Changed were: {{steps.simplify-types.output.files}}"
    depends_on: [simplify-types, remove-backports]
"""


@router.get(PIPELINES)
async def listed() -> HTMLResponse:
    """List the deployed pipelines."""
    return page("pipelines", PIPELINES, pipelines=await pipelines.deployed(), new=NEW)


@router.get(NEW)
async def new() -> HTMLResponse:
    """Show the form that defines a pipeline."""
    return _form(EXAMPLE)


@router.post(NEW)
async def define(request: Request) -> Response:
    """Deploy the definition of a form, and lead to it."""
    given = forms.fields(request.headers.get("content-type", ""), await request.body())
    text = given.get("definition", [""])[-1]
    try:
        made = await pipelines.deploy(pipelines.defined(_parsed(text)))
    except Problem as problem:
        return _form(text, problem)
    return RedirectResponse(f"{PIPELINES}/{made.name}", 303)


def _parsed(text: str) -> Any:
    try:
        return from_yaml(text, "definition")
    except UsageError as error:
        raise Problem(422, str(error)) from None


def _form(text: str, problem: Problem | None = None) -> HTMLResponse:
    status = problem.status if problem else 200
    return page("new_pipeline", PIPELINES, status, text=text, problem=str(problem or ""))


@router.get(PIPELINES + "/{name}")
async def one(name: str, service: Used) -> HTMLResponse:
    """Show a pipeline with its steps and its runs."""
    found = await pipelines.named(name)
    return page(
        "pipeline",
        PIPELINES,
        pipeline=found.pipeline,
        dag=dag.draw(found.pipeline, {}),
        runs=await service.board.runs(found),
    )


@router.post(PIPELINES + "/{name}/run")
async def run(name: str, service: Used) -> RedirectResponse:
    """Order a run, and show it."""
    return RedirectResponse(f"{RUNS}/{await pipelines.order(service, name, None)}", 303)


@router.post(PIPELINES + "/{name}/delete")
async def delete(name: str) -> RedirectResponse:
    """Delete a pipeline, and show the others."""
    await pipelines.delete(name)
    return RedirectResponse(PIPELINES, 303)


@router.get(RUNS + "/{run_id}")
async def shown(run_id: str, service: Used) -> HTMLResponse:
    """Show a run with its steps."""
    status = await service.board.run(run_id)
    row = await service.board.row(status.id)
    return await asyncio.to_thread(_run_page, service.lake, status, row)


def _run_page(lake: Lake, status: JobStatus, row: Row | None) -> HTMLResponse:
    steps = pipelines.steps_of(lake, status, row)
    definition = runs.pipeline_of(row) if row else None
    found = evidence(row) or {}
    return page(
        "run",
        PIPELINES,
        run=status,
        pipeline=definition,
        dag=dag.draw(definition, {each["name"]: each["state"] for each in steps})
        if definition
        else None,
        steps=_with_tasks(definition, steps),
        runs=showing.runs(found),
        verify_command=row["verify_command"] if row else None,
        files=showing.files((row or {}).get("patch") or ""),
        run_url=url_for("flow-run", obj_id=status.flow_run_id) if status.flow_run_id else None,
    )


def _with_tasks(definition: Pipeline | None, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if definition is None:
        return []
    return [
        {**each, "task": step.task, "on_failure": step.on_failure}
        for each in steps
        for step in (definition.step(each["name"]),)
    ]


@router.post(RUNS + "/{run_id}/approve/{job_id}")
async def approve(run_id: str, job_id: str, service: Used) -> RedirectResponse:
    """Approve the patch of a step or of the whole run, and show the run."""
    await orders.approve(service, await service.board.status(job_id))
    return RedirectResponse(f"{RUNS}/{run_id}", 303)


@router.post(RUNS + "/{run_id}/cancel")
async def cancel(run_id: str, service: Used) -> RedirectResponse:
    """Cancel a run, and show it."""
    await orders.cancel(service, await service.board.run(run_id))
    return RedirectResponse(f"{RUNS}/{run_id}", 303)
