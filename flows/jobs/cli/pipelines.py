"""Functions behind the commands of pipelines."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from agent.arms import ARMS
from flows.cli import running
from flows.display import terminal
from flows.display.errors import UsageError
from flows.jobs import body, rows
from flows.jobs.pipelines import definition as definitions
from flows.jobs.pipelines import runs
from flows.jobs.pipelines.definition import Pipeline
from flows.server.api import prefect_api
from flows.storage.lake import Lake, Row


def check(file: Path) -> None:
    """Check a definition, and print its layers."""
    checked = definitions.load(file)
    for line in definitions.drawn(checked):
        terminal.show(line)
    terminal.show(f"pipeline {checked.name}: {len(checked.steps)} steps, and nothing is wrong")


def deploy(file: Path) -> None:
    """Deploy a definition."""
    from flows.jobs.server import pipelines

    checked = definitions.load(file)
    asyncio.run(pipelines.deploy(checked))
    terminal.show(f"pipeline {checked.name} is deployed; `durabench pipeline run {checked.name}`")


def run(pipeline: str, run: str | None, lake: str | None) -> None:
    """Run a file here, order a run of a deployed pipeline, or continue a run.

    Raises:
        UsageError: there is none of these, or a run is given without a file.
    """
    if pipeline.endswith((".yaml", ".yml")) or "/" in pipeline:
        definition = definitions.load(Path(pipeline))
        known = runs.found(Lake.existing(lake), run)["job_id"] if run else None
        _run(definition, lake, run=known)
        return
    if run:
        raise UsageError("--run goes with a file: the id alone continues a run as it was declared")
    if row := _run_of(pipeline, lake):
        _run(runs.pipeline_of(row), lake, run=row["job_id"])
        return
    from flows.jobs.server import pipelines

    ordered = asyncio.run(pipelines.order(pipeline))
    terminal.show(f"run {ordered.hex[:10]} is ordered; a worker begins it")


def _run_of(beginning: str, lake: str | None) -> Row | None:
    """Return the run whose id begins with a text, or None if there is none."""
    known = Lake.open(lake).all_shared("jobs")
    found = [row for row in known if row["pipeline"] and row["job_id"].startswith(beginning)]
    return found[0] if len(found) == 1 else None


def approve(row: Row, lake: str | None) -> None:
    """Continue a run whose step or result waits for approval."""
    store = Lake.existing(lake)
    whole = rows.found(store, row["run"]) if row["run"] else row
    approved = {"approved_steps": [row["step"]]} if row["run"] else {"approved": True}
    _run(runs.pipeline_of(whole), lake, run=whole["job_id"], **approved)


def _run(definition: Pipeline, lake: str | None, **options: Any) -> None:
    with prefect_api():
        from flows.cells.attempts import on_step
        from flows.jobs.pipeline import pipeline

        on_step.set(partial(running.show_step, full=False))
        models = [arm.model or definition.model for arm in definition.arms
                  if ARMS[arm.agent].needs_model]  # fmt: skip
        needs_litellm = any(spec is not None and spec.provider == "litellm" for spec in models)
        run_id = running.run_flow(lambda: pipeline(definition, lake, **options), needs_litellm)
    row = rows.read(Lake.existing(lake), run_id)
    assert row is not None, "the flow wrote it"
    _show(row, Lake.existing(lake))


def runs_of(name: str | None, lake: str | None) -> None:
    """Print a table of runs."""
    table = Table("run", "pipeline", "state", "verdict", "cost", "begun", "result")
    for row in runs.listed(Lake.existing(lake), name):
        cost = "" if row["cost_usd"] is None else f"{row['cost_usd']:.2f}"
        result = row["pull_request"] or row["branch"] or ""
        begun = f"{row['submitted_at']:%Y-%m-%d %H:%M}"
        name_ = runs.pipeline_of(row).name
        cells = (row["job_id"], name_, row["state"], row["verdict"] or "", cost, begun, result)
        table.add_row(*map(escape, cells))
    terminal.out().print(table)


def show(run: str, lake: str | None) -> None:
    """Print a run."""
    store = Lake.existing(lake)
    row = runs.found(store, run)
    _show(row, store)
    if row["patch"] is not None:
        terminal.write(f"\n{body.body(row, '')}")


def _show(row: Row, store: Lake) -> None:
    detail = f": {row['detail']}" if row["detail"] else ""
    terminal.show(f"run {row['job_id']} of {runs.pipeline_of(row).name}: {row['state']}{detail}")
    table = Table("step", "state", "verdict", "arm", "cost", "job")
    for step in runs.states(row, store):
        cost = "" if step["cost_usd"] is None else f"{step['cost_usd']:.2f}"
        cells = (step["name"], step["state"], step["verdict"] or "", step["arm"] or "", cost,
                 step["job"] or "")  # fmt: skip
        table.add_row(*map(escape, cells))
    terminal.out().print(table)
    for step in runs.states(row, store):
        if step["state"] == "waiting":
            terminal.show(f"`durabench job approve {step['job']}` approves step {step['name']}")
    if result := row["pull_request"] or row["branch"]:
        terminal.show(result)
    elif row["state"] == "waiting":
        terminal.show(f"`durabench job approve {row['job_id']}` publishes it")


def delete(name: str) -> None:
    """Delete a deployed pipeline."""
    from flows.jobs.server import pipelines

    asyncio.run(pipelines.delete(name))
    terminal.show(f"pipeline {name} is deleted; its runs stay in the lake")
