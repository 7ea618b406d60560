"""The result of a job: patch, evidence, report and attempts."""

import json
from typing import Any

from flows.jobs import body
from flows.jobs.service.board import JobStatus
from flows.storage.job_names import experiment_of
from flows.storage.lake import Lake, Row

_OF_ATTEMPT = (
    *("attempt_id", "outcome", "detail", "model_calls", "unpriced_calls", "cost_usd", "billed_usd"),
    *("input_tokens", "output_tokens", "duration_s"),
)


def result(lake: Lake, job: JobStatus, row: Row | None) -> dict[str, Any]:
    """Return everything that a job left, as JSON."""
    left = row or {}
    return {
        **job.as_json(),
        "task": left.get("statement"),
        "base_commit": left.get("base_commit"),
        "base_branch": left.get("base_branch"),
        "verify_command": left.get("verify_command"),
        "patch": left.get("patch"),
        "evidence": evidence(row),
        "report": report(row),
        "attempts": attempts(lake, row),
    }


def evidence(row: Row | None) -> dict[str, Any] | None:
    """Return the runs of the tests before and after, or None if there are none so far."""
    return json.loads(row["verification"]) if row and row["verification"] else None


def report(row: Row | None) -> str | None:
    """Return the report in Markdown, or None if there is no patch so far."""
    is_told = row is not None and row["patch"] is not None and row["verification"]
    return body.body(row, "") if row is not None and is_told else None


def attempts(lake: Lake, row: Row | None) -> list[dict[str, Any]]:
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
