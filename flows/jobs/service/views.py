"""What answers and pages show of a job or a run, and the templates of the pages."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment
from prefect.utilities.urls import url_for

from flows.jobs import body, runs
from flows.jobs.changes import read_changes
from flows.jobs.definition import Pipeline
from flows.jobs.mailbox import (
    Mailbox,
    hears,
    list_remarks,
    read_asks,
    read_attempts,
    read_open_attempts,
)
from flows.jobs.service.board import JobStatus
from flows.jobs.service.feed import read_steps
from flows.jobs.service.guard import not_found
from flows.storage.files import make_readable
from flows.storage.job_names import experiment_of
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake, Row
from reports.rendering.page import TEMPLATES, environment

FOLDER = Path(__file__).parent
JOBS, NEW, PIPELINES, EXPERIMENTS = "/ui/jobs", "/ui/new", "/ui/pipelines", "/ui/experiments"
PLACES = {JOBS: "Jobs", NEW: "New job", PIPELINES: "Pipelines", EXPERIMENTS: "Experiments"}
"""The pages that every page leads to."""

MOST_LINES = 2_000
"""Lines of a patch on a page. The whole patch is a file to download."""
MOST_STEPS = 500
"""Steps of attempts on a page."""

_OF_ATTEMPT = (
    *("attempt_id", "outcome", "detail", "model_calls", "unpriced_calls", "cost_usd", "billed_usd"),
    *("input_tokens", "output_tokens", "duration_s"),
)
_RUNS = {
    "before": "at the base commit",
    "after": "with the patch",
    "with_old_tests": "with the patch and the tests of the base commit",
}


def show_job(lake: Lake, job: JobStatus, row: Row | None, *, is_run: bool) -> dict[str, Any]:
    """Return what the page of a job or of a run shows."""
    left = row or {}
    evidence, patch = _read_evidence(row) or {}, left.get("patch") or ""
    definition, steps = read_run(lake, job, row) if is_run else (None, [])
    log = read_steps(lake, job.id)
    known = sum_costs(lake, job)
    return {
        "job": job,
        "is_run": is_run,
        "spent": known if job.is_final or is_run else _sum_log(log),
        "asks": known["asks"],
        "hearing": _list_hearing(lake, job),
        "run_url": url_for("flow-run", obj_id=job.flow_run_id) if job.flow_run_id else None,
        "tests": show_tests(evidence),
        "warnings": evidence.get("warnings") or [],
        "verify_command": left.get("verify_command"),
        "files": show_patch(patch),
        "is_cut": patch.count("\n") > MOST_LINES,
        "most_lines": MOST_LINES,
        "attempts": list_attempts(lake, row),
        "task": left.get("statement") or job.title or "",
        "log": log[-MOST_STEPS:],
        "left_out": max(0, len(log) - MOST_STEPS),
        "can_revise": job.is_final and left.get("commit") and not (left.get("run") or is_run),
        "run": left.get("run"),
        "pipeline": definition,
        "steps": {step["name"]: step for step in steps},
    }


def sum_costs(lake: Lake, job: JobStatus) -> dict[str, Any]:
    """Return the calls and the cost of a job so far, and what its attempts wait for."""
    journal = existing_journal(lake)
    attempts = journal.progress(experiment_of(job.id)) if journal else []
    calls = sum(each.calls for each in attempts)
    unpriced = sum(each.unpriced_calls for each in attempts)
    cost = sum(each.cost_usd for each in attempts)
    known = job.cost_usd if job.cost_usd is not None or unpriced else cost
    asks = [] if job.is_final else [each.as_json() for each in read_asks(lake, job.id)]
    return {"calls": calls, "unpriced_calls": unpriced, "cost_usd": known, "asks": asks}


def _sum_log(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return calls and known cost of the steps on a page, to which its script adds the next."""
    costs = [step["cost_usd"] for step in steps if step["kind"] == "model"]
    known = [cost for cost in costs if cost is not None]
    return {
        "calls": len(costs),
        "unpriced_calls": len(costs) - len(known),
        "cost_usd": sum(known) if known or not costs else None,
    }


def collect_result(lake: Lake, job: JobStatus, row: Row | None) -> dict[str, Any]:
    """Return everything that a job left, as JSON."""
    left = row or {}
    return {
        **job.as_json(),
        "task": left.get("statement"),
        "base_commit": left.get("base_commit"),
        "base_branch": left.get("base_branch"),
        "verify_command": left.get("verify_command"),
        "patch": left.get("patch"),
        "evidence": _read_evidence(row),
        "report": _write_report(row),
        "attempts": list_attempts(lake, row),
    }


def _read_evidence(row: Row | None) -> dict[str, Any] | None:
    """Return the runs of the tests before and after, or None if there are none so far."""
    return json.loads(row["verification"]) if row and row["verification"] else None


def _write_report(row: Row | None) -> str | None:
    """Return the report in Markdown, or None if there is no patch so far."""
    is_told = row is not None and row["patch"] is not None and row["verification"]
    return body.body(row, "") if row is not None and is_told else None


def list_attempts(lake: Lake, row: Row | None) -> list[dict[str, Any]]:
    """Return the ended attempts of a job with outcomes and costs, in the order of its arms."""
    if row is None:
        return []
    experiment = experiment_of(row["job_id"])
    arms = [arm["name"] for arm in json.loads(row["request"])["arms"]]
    return [
        {"arm": arm, **{name: attempt[name] for name in _OF_ATTEMPT}}
        for arm in arms
        for unit in lake.units("attempts", "*", experiment, arm)
        for attempt in lake.read("attempts", experiment, arm, unit, _OF_ATTEMPT)
    ]


def read_run(
    lake: Lake, status: JobStatus, row: Row | None
) -> tuple[Pipeline | None, list[dict[str, Any]]]:
    """Return the definition of a run, and its steps with their states; nothing before it begins.

    Raises:
        Problem: the id is that of a job.
    """
    if row is None:
        return None, []
    if not row["pipeline"]:
        raise not_found(f"run {status.id!r}; it is a job: see /status/{status.id}")
    found = runs.read_states(row, lake)
    for step in found:
        if step["state"] == "running" and status.is_final:
            step["state"] = "interrupted"
        if step["state"] == "skipped" and not status.is_final:
            step["state"] = "pending"
    return runs.pipeline_of(row), found


def _list_hearing(lake: Lake, job: JobStatus) -> list[str]:
    """Return the arms of a job that are at work and hear messages."""
    if job.is_final:
        return []
    return [each.arm for each in read_open_attempts(lake, job.id) if hears(each)]


def list_messages(lake: Lake, job_id: str) -> list[dict[str, Any]]:
    """Return what was said to the attempts of a job and by them, each attempt by itself."""
    found = []
    for attempt in read_attempts(lake, job_id):
        own = Mailbox.of(lake, attempt.attempt_id)
        for remark in list_remarks(own.journal.steps(attempt.attempt_id), own.received()):
            if remark.speaker != "tool":
                found.append(
                    {
                        "arm": attempt.arm,
                        "speaker": remark.speaker,
                        "name": remark.name,
                        "text": remark.text,
                        "at": remark.at.isoformat(timespec="milliseconds") if remark.at else None,
                        "is_read": not remark.is_unread,
                    }
                )
    return found


@dataclass(frozen=True)
class ChangedFile:
    """A changed file of a patch."""

    path: str
    added: int
    removed: int
    lines: list[tuple[str, str]]
    """Each with its kind: added, removed, place (a hunk's first line), head or same."""


def show_patch(patch: str) -> list[ChangedFile]:
    """Return the changed files of a patch, up to `MOST_LINES` lines in all."""
    parts: list[list[tuple[str, str]]] = []
    in_hunk = False
    for text in make_readable(patch).splitlines()[:MOST_LINES]:
        if text.startswith("diff --git "):
            parts.append([])
            in_hunk = False
        in_hunk = in_hunk or text.startswith("@@")
        if parts:
            parts[-1].append((_kind(text, in_hunk), text))
    known = read_changes(patch)
    return [ChangedFile(*named, lines) for named, lines in zip(known, parts, strict=False)]


def _kind(text: str, in_hunk: bool) -> str:
    if not in_hunk:
        return "head"
    return {"+": "added", "-": "removed", "@": "place"}.get(text[:1], "same")


def show_tests(evidence: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of the tests that a verdict rests on, with the names of failing tests."""
    found = []
    for name, title in _RUNS.items():
        if run := evidence.get(name):
            failing = [*run["failed"], *run["errors"]]
            counts = [len(run["passed"]), len(failing), len(run["skipped"])]
            shown = {"name": title, "exit_code": run["exit_code"]}
            found.append({**shown, "counts": counts, "failing": failing})
    return found


@cache
def _environment() -> Environment:
    return environment(FOLDER / "templates")


@cache
def style() -> str:
    """Return the style of the report and of the pages."""
    parts = (TEMPLATES / "page.css", FOLDER / "static" / "service.css")
    return "\n".join(part.read_text(encoding="utf-8") for part in parts)


def page(name: str, place: str = "", status: int = 200, **content: Any) -> HTMLResponse:
    """Return a page. `place` is the path of the page in the navigation that it belongs to."""
    from prefect.settings import PREFECT_UI_URL

    template = _environment().get_template(f"{name}.html.j2")
    ui = PREFECT_UI_URL.value()
    return HTMLResponse(
        template.render(places=PLACES, place=place, prefect_ui=ui, **content), status
    )


def problem_page(status: int, message: str) -> HTMLResponse:
    """Return a page that says what went wrong."""
    return page("problem", status=status, code=status, message=message)
