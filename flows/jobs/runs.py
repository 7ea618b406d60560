"""The rows of a run and of its steps, which are rows of jobs."""

import json
from typing import Any

from eval.digests import canonical_digest
from flows.display.errors import UsageError
from flows.jobs import rows
from flows.jobs.changes import read_changes
from flows.jobs.definition import Pipeline, PipelineStep, parse
from flows.jobs.request import Request
from flows.storage.files import make_readable
from flows.storage.lake import Lake, Row

_SHARED = ("source", "model", "budget_usd", "verify", "verify_timeout_s", "image", "environment",
           "network", "token_block")  # fmt: skip
"""Settings of a pipeline that its steps share."""


def request_of_run(pipeline: Pipeline, run: str) -> Request:
    """Return the job that a run is as a whole."""
    content = {name: getattr(pipeline, name) for name in (*_SHARED, "ref", "publish", "approve")}
    return Request(**content, arms=pipeline.arms, task=pipeline.statement, id=run)


def request_of_step(
    pipeline: Pipeline, step: PipelineStep, run: str, task: str, base: str
) -> Request:
    """Return the job of a step, which starts at a commit in the mirror."""
    content = {name: getattr(pipeline, name) for name in _SHARED}
    arms = [arm for arm in pipeline.arms if step.arm in (None, arm.name)]
    return Request(**content, arms=arms, task=task, ref=base, id=step_id(run, step.name))


def step_id(run: str, name: str) -> str:
    """Return the id of the job of a step."""
    return canonical_digest([run, name])[:10]


def pipeline_of(row: Row) -> Pipeline:
    """Return the definition of a run."""
    return parse(json.loads(row["pipeline"]), f"run {row['job_id']}")


def read_steps(lake: Lake, pipeline: Pipeline, run: str) -> dict[str, Row]:
    """Return the rows of the started steps of a run, by name."""
    step_rows = {step.name: rows.read(lake, step_id(run, step.name)) for step in pipeline.steps}
    started = {name: row for name, row in step_rows.items() if row is not None}
    return dict(zip(started, rows.mark_crashed(lake, [*started.values()]), strict=True))


def read_all(lake: Lake, name: str | None = None) -> list[Row]:
    """Return the rows of all runs, the latest first, or only the runs of one pipeline."""
    runs = [row for row in rows.read_all(lake) if row["pipeline"] is not None]
    return [row for row in runs if name is None or pipeline_of(row).name == name]


def find(lake: Lake, beginning: str) -> Row:
    """Return the row of the run whose id begins with a text.

    Raises:
        UsageError: there is no such run, or there are several.
    """
    row = rows.find(lake, beginning)
    if row["pipeline"] is None:
        raise UsageError(
            f"job {row['job_id']} is not a run of a pipeline: see `durabench job show`"
        )
    return row


def read_outputs(row: Row, attempt: Row | None) -> dict[str, str | None]:
    """Return the outputs of a step, by key. A step that failed has none."""
    if row["state"] != "done":
        return {}
    return {
        "summary": attempt["detail"] if attempt else None,
        "patch": make_readable(row["patch"]),
        "files": "\n".join(path for path, _, _ in read_changes(row["patch"])),
        "verdict": row["verdict"],
        "reason": row["reason"],
        "arm": row["arm"],
        "commit": row["commit"],
        "job": row["job_id"],
    }


def read_states(row: Row, lake: Lake) -> list[dict[str, Any]]:
    """Return the steps of a run with their states, steps that have not started as `pending`."""
    pipeline = pipeline_of(row)
    step_rows = read_steps(lake, pipeline, row["job_id"])
    ends = json.loads(row["verification"] or "{}").get("steps") or []
    end_of = {end["name"]: end for end in ends if row["state"] != "running"}
    states = []
    for step in pipeline.ordered:
        step_row, end = step_rows.get(step.name, {}), end_of.get(step.name, {})
        states.append(
            {
                "name": step.name,
                "depends_on": step.depends_on,
                "state": end.get("state") or step_row.get("state") or "pending",
                "detail": end.get("detail") or step_row.get("detail") or "",
                "verdict": step_row.get("verdict"),
                "arm": step_row.get("arm"),
                "cost_usd": step_row.get("cost_usd"),
                "job": step_row.get("job_id"),
            }
        )
    return states
