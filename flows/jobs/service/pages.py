"""The pages: jobs, one job, the form that submits one, and the sign-in."""

import asyncio
import hmac
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from prefect.utilities.urls import url_for
from pydantic import ValidationError

from flows.experiments.declaration import in_one_line
from flows.jobs.request import MOST_CHARACTERS
from flows.jobs.service import forms, messages, orders, results, showing
from flows.jobs.service.board import JobStatus
from flows.jobs.service.feed import Event, read_steps
from flows.jobs.service.guard import COOKIE, cookie_of
from flows.jobs.service.messages import JobMessage
from flows.jobs.service.problems import Problem, not_found
from flows.jobs.service.rendering import page, style
from flows.jobs.service.services import Service, Used
from flows.jobs.service.submitting import submitted
from flows.storage.files import encode_patch
from flows.storage.lake import Row

router = APIRouter(include_in_schema=False)

JOBS, NEW = "/ui/jobs", "/ui/new"
MOST_JOBS = 500
MOST_STEPS = 500
STATES = ("scheduled", "running", "waiting", "done", "failed", "cancelled", "crashed")
WAYS = {
    "patch": "a patch on this page",
    "branch": "a branch",
    "pull_request": "a draft pull request",
}
_COOKIE_S = 30 * 24 * 3600


@router.get("/")
@router.get("/ui")
async def first() -> RedirectResponse:
    """Lead to the jobs."""
    return RedirectResponse(JOBS, 303)


@router.get("/style.css")
async def style_sheet() -> Response:
    """Return the style of all pages."""
    return Response(style(), media_type="text/css", headers={"Cache-Control": "max-age=60"})


@router.get("/sign-in")
async def sign_in(goal: Annotated[str, Query(alias="next")] = JOBS) -> HTMLResponse:
    """Ask for the token."""
    return page("sign_in", problem="", next=goal)


@router.post("/sign-in")
async def signed_in(request: Request, service: Used) -> Response:
    """Let a browser in that has the token."""
    given = forms.fields(request.headers.get("content-type", ""), await request.body())
    token, goal = (given.get(name, [""])[-1] for name in ("token", "next"))
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


@router.get("/ui/jobs")
async def jobs(service: Used, state: str = "") -> HTMLResponse:
    """Show the latest jobs."""
    every = await service.board.listed()
    found = [job for job in every if state in ("", job.state)]
    unfinished = sum(not job.is_final for job in found)
    return page(
        "jobs",
        JOBS,
        jobs=found[:MOST_JOBS],
        total=len(found),
        open=unfinished,
        is_live=any(not job.is_final for job in every),
        states=STATES,
        chosen=state,
    )


@router.get("/ui/new")
async def new() -> HTMLResponse:
    """Show the form that submits a job."""
    return _form(forms.EMPTY)


@router.post("/ui/new")
async def submit(request: Request, service: Used) -> Response:
    """Submit the job of a form, and lead to it."""
    body = await request.body()
    entered = forms.entered(forms.fields(request.headers.get("content-type", ""), body))
    try:
        wanted = submitted(forms.content(entered))
        new_job = await orders.submit(service, wanted, None)
    except Problem as problem:
        return _form(entered, problem)
    return RedirectResponse(f"{JOBS}/{new_job.id}", 303)


def _form(entered: dict[str, Any], problem: Problem | None = None) -> HTMLResponse:
    return page(
        "new",
        NEW,
        problem.status if problem else 200,
        entered=entered,
        problem=str(problem or ""),
        arm_names=forms.ARM_NAMES,
        ways=WAYS,
        most_characters=MOST_CHARACTERS,
    )


@router.get("/ui/jobs/{job_id}")
async def job(job_id: str, service: Used) -> HTMLResponse:
    """Show a job with its log, its evidence and its patch."""
    known = await service.board.status(job_id)
    row = await service.board.row(known.id)
    return await asyncio.to_thread(_job_page, service, known, row)


def _job_page(service: Service, job: JobStatus, row: Row | None) -> HTMLResponse:
    steps = read_steps(service.lake, job.id)
    left, evidence = row or {}, results.evidence(row)
    patch = left.get("patch") or ""
    spent = orders.spent(service.lake, job)
    return page(
        "job",
        JOBS,
        job=job,
        spent=spent if job.is_final else _spent(steps),
        asks=spent["asks"],
        hearing=messages.hearing(service.lake, job),
        run_url=url_for("flow-run", obj_id=job.flow_run_id) if job.flow_run_id else None,
        runs=showing.runs(evidence),
        warnings=(evidence or {}).get("warnings") or [],
        verify_command=left.get("verify_command"),
        files=showing.files(patch),
        is_cut=patch.count("\n") > showing.MOST_LINES,
        most_lines=showing.MOST_LINES,
        attempts=results.attempts(service.lake, row),
        task=left.get("statement") or job.title or "",
        steps=steps[-MOST_STEPS:],
        left_out=max(0, len(steps) - MOST_STEPS),
        can_revise=job.is_final and bool(left.get("commit")) and not left.get("run"),
        run=left.get("run"),
    )


def _spent(steps: list[Event]) -> dict[str, Any]:
    """Return calls and known cost of the steps on a page, to which its script adds the next."""
    costs = [step["cost_usd"] for step in steps if step["kind"] == "model"]
    known = [cost for cost in costs if cost is not None]
    return {
        "calls": len(costs),
        "unpriced_calls": len(costs) - len(known),
        "cost_usd": sum(known) if known or not costs else None,
    }


@router.get("/ui/jobs/{job_id}/patch")
async def patch(job_id: str, service: Used) -> PlainTextResponse:
    """Return the patch of a job as a file."""
    row = await service.board.row(await service.board.identified(job_id))
    if row is None or row["patch"] is None:
        raise not_found(f"patch of job {job_id!r}")
    named = {"Content-Disposition": f'attachment; filename="{row["job_id"]}.patch"'}
    return PlainTextResponse(encode_patch(row["patch"]), headers=named)


@router.post("/ui/jobs/{job_id}/cancel")
async def cancel(job_id: str, service: Used) -> RedirectResponse:
    """Cancel a job, and show it."""
    await orders.cancel(service, await service.board.status(job_id))
    return RedirectResponse(f"{JOBS}/{job_id}", 303)


@router.post("/ui/jobs/{job_id}/approve")
async def approve(job_id: str, service: Used) -> RedirectResponse:
    """Publish a job's patch, and show the job."""
    await orders.approve(service, await service.board.status(job_id))
    return RedirectResponse(f"{JOBS}/{job_id}", 303)


@router.post("/ui/jobs/{job_id}/messages")
async def say(request: Request, job_id: str, service: Used) -> RedirectResponse:
    """Send a message to a job, and show the job."""
    given = forms.fields(request.headers.get("content-type", ""), await request.body())
    content = {name: values[-1] for name, values in given.items() if values[-1]}
    try:
        message = JobMessage.model_validate(content)
    except ValidationError as error:
        raise Problem(422, in_one_line(error)) from None
    await messages.sent(service, await service.board.status(job_id), message)
    return RedirectResponse(f"{JOBS}/{job_id}", 303)


@router.post("/ui/jobs/{job_id}/revise")
async def revise(request: Request, job_id: str, service: Used) -> RedirectResponse:
    """Order a revision, and show it."""
    given = forms.fields(request.headers.get("content-type", ""), await request.body())
    text = given.get("text", [""])[-1].strip()
    if not text:
        raise Problem(422, "say what to change")
    revision = await orders.revise(service, await service.board.status(job_id), text)
    return RedirectResponse(f"{JOBS}/{revision.id}", 303)
