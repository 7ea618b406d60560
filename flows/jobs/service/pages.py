"""The pages: jobs, pipelines with their runs, experiments, forms and the sign-in."""

import asyncio
import hmac
import mimetypes
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from pydantic import ValidationError

from flows.display.errors import UsageError
from flows.experiments import status
from flows.experiments.declaration import from_yaml, in_one_line
from flows.jobs import deployed
from flows.jobs.request import MOST_CHARACTERS
from flows.jobs.service import orders, views
from flows.jobs.service.board import JobStatus, ask
from flows.jobs.service.feed import Service, Used
from flows.jobs.service.guard import COOKIE, Problem, cookie_of, not_found
from flows.jobs.service.orders import BY_NAME, DEFAULT_ARM, JobMessage
from flows.jobs.service.views import EXPERIMENTS, FOLDER, JOBS, NEW, PIPELINES, page
from flows.storage.files import encode_patch
from flows.storage.job_names import job_of
from flows.storage.report_files import page_path

router = APIRouter(include_in_schema=False)

NEW_PIPELINE, RUNS = "/ui/new-pipeline", "/ui/runs"

MOST_JOBS, MOST_CELLS = 500, 200
STATES = ("scheduled", "running", "waiting", "done", "failed", "cancelled", "crashed")
WAYS = {
    "patch": "a patch on this page",
    "branch": "a branch",
    "pull_request": "a draft pull request",
}
EMPTY: dict[str, Any] = {
    "source": "",
    "task": "",
    "ref": "",
    "arms": [DEFAULT_ARM],
    "model": "",
    "api_base": "",
    "publish": "patch",
    "budget_usd": "",
    "verify": "auto",
    "image": "",
    "environment": "docker",
    "approve": "",
    "network": "",
}
"""The fields of the form that submits a job as text, as a new page has them."""

_BEGUN = ("running", "interrupted", "killed", "budget_stop", "infrastructure")
_COOKIE_S = 30 * 24 * 3600
_FORM = "application/x-www-form-urlencoded"

Fields = Mapping[str, list[str]]


async def read_fields(request: Request) -> Fields:
    """Return the fields of the form that was sent."""
    body = await request.body()
    if not body:
        return {}
    if request.headers.get("content-type", "").partition(";")[0] != _FORM:
        raise Problem(415, f"this page takes forms: {_FORM}")
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=100)
    except ValueError as error:
        raise Problem(400, f"the form cannot be read: {error}") from None


Form = Annotated[Fields, Depends(read_fields)]


def read_entries(fields: Fields) -> dict[str, Any]:
    """Return what a person entered about a job, to be shown again if it is refused."""
    last = {name: (fields.get(name) or [""])[-1] for name in EMPTY}
    return {**last, "arms": fields.get("arms", [])}


def build_content(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request. An empty entry gets its default."""
    content = {name: value for name, value in entries.items() if value not in ("", [])}
    content |= {name: name in content for name in ("approve", "network")}
    if api_base := content.pop("api_base", None):
        content["model"] = {"name": content.get("model", ""), "api_base": api_base}
    if "budget_usd" in content:
        try:
            content["budget_usd"] = float(content["budget_usd"])
        except ValueError:
            raise Problem(422, "budget_usd: give US dollars, such as 2.50") from None
    return content


@router.get("/")
@router.get("/ui")
async def first() -> RedirectResponse:
    """Lead to the jobs."""
    return RedirectResponse(JOBS, 303)


@router.get("/style.css")
async def style_sheet() -> Response:
    """Return the style of all pages."""
    return Response(views.style(), media_type="text/css", headers={"Cache-Control": "max-age=60"})


@router.get("/sign-in")
async def sign_in(goal: Annotated[str, Query(alias="next")] = JOBS) -> HTMLResponse:
    """Ask for the token."""
    return page("sign_in", problem="", next=goal)


@router.post("/sign-in")
async def submit_token(request: Request, fields: Form, service: Used) -> Response:
    """Let a browser in that has the token."""
    token, goal = (fields.get(name, [""])[-1] for name in ("token", "next"))
    if not hmac.compare_digest(token.strip().encode(), service.limits.token.encode()):
        return page("sign_in", status=401, problem="This is not the token.", next=goal)
    # A path of this service only: "//host" and "/\host" lead elsewhere.
    is_own = goal.startswith("/") and not goal.startswith(("//", "/\\"))
    answer = RedirectResponse(goal if is_own else JOBS, 303)
    answer.set_cookie(
        COOKIE,
        cookie_of(service.limits.token),
        max_age=_COOKIE_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


@router.get(JOBS)
async def jobs(service: Used, state: str = "", text: str = "") -> HTMLResponse:
    """Show the latest jobs."""
    every = await service.board.list_jobs()
    chosen = [job for job in every if state in ("", job.state) and job.has(text)]
    return page(
        "jobs",
        JOBS,
        jobs=chosen[:MOST_JOBS],
        total=len(chosen),
        open=sum(not job.is_final for job in chosen),
        is_live=any(not job.is_final for job in every),
        states=STATES,
        chosen=state,
        text=text,
    )


@router.get(NEW)
async def new() -> HTMLResponse:
    """Show the form that submits a job."""
    return _form(EMPTY)


@router.post(NEW)
async def submit(fields: Form, service: Used) -> Response:
    """Submit the job of a form, and lead to it."""
    entries = read_entries(fields)
    try:
        job = await orders.submit(
            service, orders.parse_job(build_content(entries), service.defaults), None
        )
    except Problem as problem:
        return _form(entries, problem)
    return RedirectResponse(f"{JOBS}/{job.id}", 303)


def _form(entries: dict[str, Any], problem: Problem | None = None) -> HTMLResponse:
    return page(
        "new",
        NEW,
        problem.status if problem else 200,
        entered=entries,
        problem=str(problem or ""),
        arm_names=BY_NAME,
        ways=WAYS,
        most_characters=MOST_CHARACTERS,
    )


@router.get(JOBS + "/{job_id}")
async def job(job_id: str, service: Used) -> HTMLResponse:
    """Show a job with its log, its evidence and its patch."""
    return await _show(service, await service.board.status(job_id), JOBS)


@router.get(RUNS + "/{run_id}")
async def run(run_id: str, service: Used) -> HTMLResponse:
    """Show a run with its steps."""
    return await _show(service, await service.board.status(run_id, "run"), PIPELINES)


async def _show(service: Service, job: JobStatus, place: str) -> HTMLResponse:
    row, is_run = await service.board.row(job.id), place == PIPELINES
    content = await asyncio.to_thread(views.show_job, service.lake, job, row, is_run=is_run)
    return page("job", place, **content)


@router.get(JOBS + "/{job_id}/patch")
async def patch(job_id: str, service: Used) -> PlainTextResponse:
    """Return the patch of a job as a file."""
    row = await service.board.row(await service.board.identify(job_id))
    if row is None or row["patch"] is None:
        raise not_found(f"patch of job {job_id!r}")
    named = {"Content-Disposition": f'attachment; filename="{row["job_id"]}.patch"'}
    return PlainTextResponse(encode_patch(row["patch"]), headers=named)


@router.post(JOBS + "/{job_id}/{order}")
@router.post(RUNS + "/{job_id}/{order}")
async def change(
    request: Request, job_id: str, order: str, fields: Form, service: Used
) -> RedirectResponse:
    """Follow the order of a form on the page of a job or of a run, and show the page again."""
    # A page of a run also has forms of its steps.
    job = await service.board.status(fields.get("job", [job_id])[-1])
    match order:
        case "approve":
            await orders.approve(service, job)
        case "cancel":
            await orders.cancel(service, job)
        case "messages":
            content = {name: values[-1] for name, values in fields.items() if values[-1]}
            try:
                message = JobMessage.model_validate(content)
            except ValidationError as error:
                raise Problem(422, in_one_line(error)) from None
            await orders.send(service, job, message)
        case "revise":
            if not (text := fields.get("text", [""])[-1].strip()):
                raise Problem(422, "say what to change")
            job_id = (await orders.revise(service, job, text)).id
        case _:
            raise not_found(f"order {order!r}")
    return RedirectResponse(f"{request.url.path.rsplit('/', 2)[0]}/{job_id}", 303)


"""Orders of forms. One of them makes another job, which is shown instead."""


@router.get(PIPELINES)
async def pipelines() -> HTMLResponse:
    """List the deployed pipelines."""
    definitions = await ask(deployed.read_deployed())
    return page("pipelines", PIPELINES, pipelines=definitions, new=NEW_PIPELINE)


@router.get(NEW_PIPELINE)
async def new_pipeline() -> HTMLResponse:
    """Show the form that defines a pipeline."""
    return _definition((FOLDER.parent / "pipeline.example.yaml").read_text(encoding="utf-8"))


@router.post(NEW_PIPELINE)
async def define(fields: Form, service: Used) -> Response:
    """Deploy the definition of a form, and lead to it."""
    text = fields.get("definition", [""])[-1]
    try:
        wanted = orders.parse_pipeline(from_yaml(text, "definition"), service.defaults)
        deployment = await orders.deploy(wanted)
    except (Problem, UsageError) as error:
        return _definition(text, error if isinstance(error, Problem) else Problem(422, str(error)))
    return RedirectResponse(f"{PIPELINES}/{deployment.name}", 303)


def _definition(text: str, problem: Problem | None = None) -> HTMLResponse:
    status = problem.status if problem else 200
    return page("new_pipeline", PIPELINES, status, text=text, problem=str(problem or ""))


@router.get(PIPELINES + "/{name}")
async def pipeline(name: str, service: Used) -> HTMLResponse:
    """Show a pipeline with its steps and its runs."""
    definition = await orders.find_pipeline(name)
    runs = await service.board.runs(definition.name, definition)
    return page("pipeline", PIPELINES, pipeline=definition.pipeline, runs=runs)


@router.post(PIPELINES + "/{name}/run")
async def order_run(name: str, service: Used) -> RedirectResponse:
    """Order a run, and show it."""
    return RedirectResponse(f"{RUNS}/{await orders.order_run(service, name, None)}", 303)


@router.post(PIPELINES + "/{name}/delete")
async def delete(name: str) -> RedirectResponse:
    """Delete a pipeline, and show the others."""
    await ask(deployed.delete(name))
    return RedirectResponse(PIPELINES, 303)


@router.get(EXPERIMENTS)
def experiments(service: Used) -> HTMLResponse:
    """List the experiments of the lake. Jobs have their own pages."""
    with service.lake.reading():
        names = [name for name in service.lake.experiments() if job_of(name) is None]
    return page("experiments", EXPERIMENTS, names=names)


@router.get(EXPERIMENTS + "/{name}")
def experiment(name: str, service: Used) -> HTMLResponse:
    """Show the progress of an experiment."""
    lake = service.lake
    if name not in lake.experiments():
        raise not_found(f"experiment {name!r}")
    reading = status.read(lake, [name])
    [progress] = reading.experiments
    with lake.reading():
        has_report = page_path(lake, name).exists()
    return page(
        "experiment",
        EXPERIMENTS,
        experiment=progress,
        notes=reading.notes,
        has_report=has_report,
        cells=[cell for cell in progress.cells if cell.state in _BEGUN][:MOST_CELLS],
        is_live=progress.total.states["done"] < progress.total.planned,
    )


@router.get(EXPERIMENTS + "/{name}/report/{path:path}")
def report(name: str, path: str, service: Used) -> Response:
    """Return a file of an experiment's report."""
    lake, parts = service.lake, PurePosixPath(path).parts
    if name not in lake.experiments() or not parts or ".." in parts or parts[0] == "/":
        raise not_found("such report")
    file = page_path(lake, name).parent.joinpath(*parts)
    with lake.reading():
        if not file.is_file():
            raise not_found("such page of the report")
        content = file.read_bytes()
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Response(content, media_type=kind)
