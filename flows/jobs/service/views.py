"""The content of answers and pages about a job or a run, and the templates of the pages."""

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
    list_remarks,
    read_asks,
    read_open_attempts,
    read_watched,
    reads_messages,
)
from flows.jobs.service.aliases import describe_work
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
    "at_base": "with the tests of the patch, without its code",
}


def show_job(lake: Lake, job: JobStatus, row: Row | None, *, is_run: bool) -> dict[str, Any]:
    """Return what the page of a job or of a run shows."""
    columns = row or {}
    evidence, patch = _read_evidence(row) or {}, columns.get("patch") or ""
    definition, steps = read_run(lake, job, row) if is_run else (None, [])
    log = read_steps(lake, job.id)
    costs = sum_costs(lake, job)
    readers = [] if job.is_final else filter(reads_messages, read_open_attempts(lake, job.id))
    return {
        "job": job,
        "is_run": is_run,
        "spent": costs if job.is_final or is_run else _sum_log(log),
        "asks": costs["asks"],
        "hearing": [attempt.arm for attempt in readers],
        "run_url": url_for("flow-run", obj_id=job.flow_run_id) if job.flow_run_id else None,
        "tests": show_tests(evidence),
        "warnings": evidence.get("warnings") or [],
        "verify_command": columns.get("verify_command"),
        "files": show_patch(patch),
        "is_cut": patch.count("\n") > MOST_LINES,
        "most_lines": MOST_LINES,
        "attempts": list_attempts(lake, row),
        "task": columns.get("statement") or job.title or "",
        "log": log[-MOST_STEPS:],
        "left_out": max(0, len(log) - MOST_STEPS),
        "can_revise": job.is_final and columns.get("commit") and not (columns.get("run") or is_run),
        "run": columns.get("run"),
        "pipeline": definition,
        "steps": {step["name"]: step for step in steps},
    }


def sum_costs(lake: Lake, job: JobStatus) -> dict[str, Any]:
    """Return the calls and the cost of a job so far, and the questions of its attempts."""
    journal = existing_journal(lake)
    attempts = journal.progress(experiment_of(job.id)) if journal else []
    calls = sum(attempt.calls for attempt in attempts)
    unpriced = sum(attempt.unpriced_calls for attempt in attempts)
    cost: float | None = sum(attempt.cost_usd for attempt in attempts)
    if job.cost_usd is not None or unpriced:
        cost = job.cost_usd
    asks = [] if job.is_final else [ask.as_json() for ask in read_asks(lake, job.id)]
    return {"calls": calls, "unpriced_calls": unpriced, "cost_usd": cost, "asks": asks}


def _sum_log(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return calls and known cost of the steps on a page, to which its script adds the next."""
    costs = [step["cost_usd"] for step in steps if step["kind"] == "model"]
    priced = [cost for cost in costs if cost is not None]
    return {
        "calls": len(costs),
        "unpriced_calls": len(costs) - len(priced),
        "cost_usd": sum(priced) if priced or not costs else None,
    }


def collect_result(lake: Lake, job: JobStatus, row: Row | None) -> dict[str, Any]:
    """Return everything that a job left, as JSON."""
    columns = ("base_commit", "base_branch", "verify_command", "patch")
    evidence, steps = _read_evidence(row), read_steps(lake, job.id)
    has_report = row is not None and row["patch"] is not None and row["verification"]
    return {
        **job.as_json(),
        "task": row["statement"] if row else None,
        **{name: row[name] if row else None for name in columns},
        "evidence": evidence,
        "report": body.body(row, "") if row is not None and has_report else None,
        "attempts": list_attempts(lake, row),
        **describe_work(lake, existing_journal(lake), job.id, evidence, steps),
    }


def _read_evidence(row: Row | None) -> dict[str, Any] | None:
    """Return the runs of the tests before and after, or None if there are none so far."""
    return json.loads(row["verification"]) if row and row["verification"] else None


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
    """Return the definition of a run, and its steps with their states; nothing before it starts.

    Raises:
        Problem: the id names a job.
    """
    if row is None:
        return None, []
    if not row["pipeline"]:
        raise not_found(f"run {status.id!r}; it is a job: see /status/{status.id}")
    steps = runs.read_states(row, lake)
    for step in steps:
        if step["state"] == "running" and status.is_final:
            step["state"] = "interrupted"
        if step["state"] == "skipped" and not status.is_final:
            step["state"] = "pending"
        if step["state"] == "pending" and status.is_final:
            step["state"] = "skipped"
    return runs.pipeline_of(row), steps


def list_messages(lake: Lake, job_id: str) -> list[dict[str, Any]]:
    """Return the conversation of each attempt of a job whose steps were not pruned."""
    journal, messages = existing_journal(lake), []
    for attempt in (watched.attempt for watched in read_watched(lake, job_id)):
        if journal is None or journal.pruned_at(attempt.attempt_id) is not None:
            continue
        mailbox = Mailbox(journal, attempt)
        for remark in list_remarks(journal.steps(attempt.attempt_id), mailbox.list_messages()):
            if remark.speaker == "tool":
                continue
            messages.append(
                {
                    "arm": attempt.arm,
                    "speaker": remark.speaker,
                    "name": remark.name,
                    "text": remark.text,
                    "at": remark.at.isoformat(timespec="milliseconds") if remark.at else None,
                    "is_read": not remark.is_unread,
                }
            )
    return messages


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
        kind = {"+": "added", "-": "removed", "@": "place"}.get(text[:1], "same")
        if parts:
            parts[-1].append((kind if in_hunk else "head", text))
    changes = zip(read_changes(patch), parts, strict=False)
    return [ChangedFile(*change, lines) for change, lines in changes]


def show_tests(evidence: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of the tests that a verdict rests on, with the names of failing tests."""
    tests = []
    for name, title in _RUNS.items():
        if run := evidence.get(name):
            failing = [*run["failed"], *run["errors"]]
            counts = [len(run["passed"]), len(failing), len(run["skipped"])]
            tests.append(
                {
                    "name": title,
                    "exit_code": run["exit_code"],
                    "counts": counts,
                    "failing": failing,
                }
            )
    return tests


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
