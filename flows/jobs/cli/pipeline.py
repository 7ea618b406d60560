"""Pipelines of jobs: `durabench pipeline`."""

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import LakeOption
from reports.format import plural

if TYPE_CHECKING:
    from flows.jobs.definition import Pipeline
    from flows.storage.lake import Lake, Row

pipeline_app = typer.Typer(
    name="pipeline",
    help="Run several jobs on one repository, in the order in which they build on each other, and "
    "publish what they changed as one.",
    no_args_is_help=True,
)

_File = Annotated[Path, typer.Argument(metavar="FILE", help="definition of a pipeline in YAML")]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="name of a deployed pipeline")]


@pipeline_app.command()
def check(file: _File) -> None:
    """Check a definition, and show which steps run at the same time. Nothing runs."""
    from flows.display.terminal import show
    from flows.jobs.definition import load

    checked = load(file)
    for number, layer in enumerate(checked.layers, 1):
        after = [" ← ".join(filter(None, [s.name, " + ".join(s.depends_on)])) for s in layer]
        show(f"{number}. {', '.join(after)}")
    steps = plural(len(checked.steps), "step")
    show(f"pipeline {checked.name}: {steps}, and nothing is wrong")


@pipeline_app.command()
def deploy(file: _File) -> None:
    """Deploy a definition on the configured Prefect server, with its schedule.

    It becomes a deployment of the flow `pipeline`, in the work pool of the deployment
    `pipeline/pipeline`. Deploying the same name again replaces it.
    """
    from flows.display.terminal import show
    from flows.jobs import deployed
    from flows.jobs.definition import load

    checked = load(file)
    asyncio.run(deployed.deploy(checked))
    show(f"pipeline {checked.name} is deployed; `durabench pipeline run {checked.name}`")


@pipeline_app.command()
def run(
    pipeline: Annotated[
        str,
        typer.Argument(help="file, name of a deployed pipeline, or id of a run to continue"),
    ],
    run: Annotated[
        str | None,
        typer.Option("--run", help="with a file: continue this run, with the file as it is now"),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Run a pipeline: here for a file, on a worker for a deployed one.

    A run that stopped is continued by its id, and finished work is not bought again.
    """
    from flows.display.errors import UsageError
    from flows.display.terminal import show
    from flows.jobs import deployed, runs
    from flows.jobs.definition import load
    from flows.storage.lake import Lake

    if pipeline.endswith((".yaml", ".yml")) or "/" in pipeline:
        defined = load(Path(pipeline))
        run_id = runs.find(Lake.existing(lake), run)["job_id"] if run else None
        _run(defined, Lake.open(lake), run_id)
        return
    if run:
        raise UsageError("--run goes with a file: the id alone continues a run as it was declared")
    store = Lake.open(lake)
    ids = [row["job_id"] for row in runs.read_all(store) if row["job_id"].startswith(pipeline)]
    if len(ids) == 1:
        continue_run(store, ids[0])
        return
    ordered = asyncio.run(deployed.order(pipeline))
    show(f"run {ordered.hex[:10]} is ordered; a worker starts it")


@pipeline_app.command()
def runs(
    name: Annotated[str | None, typer.Argument(help="name of a pipeline; default all")] = None,
    lake: LakeOption = None,
) -> None:
    """List the runs of a lake, the latest first."""
    from rich.markup import escape
    from rich.table import Table

    from flows.display import terminal
    from flows.jobs import rows, runs
    from flows.storage.lake import Lake

    table = Table("run", "pipeline", "state", "verdict", "cost", "begun", "result")
    for row in runs.read_all(Lake.existing(lake), name):
        cost = "" if row["cost_usd"] is None else f"{row['cost_usd']:.2f}"
        result = row["detail"] or row["pull_request"] or row["branch"] or ""
        begun = f"{row['submitted_at']:%Y-%m-%d %H:%M}"
        of = runs.pipeline_of(row).name
        verdict = rows.say_verdict(row["verdict"])
        cells = (row["job_id"], of, row["state"], verdict, cost, begun, result)
        table.add_row(*map(escape, cells))
    terminal.out().print(table)


@pipeline_app.command()
def show(
    run: Annotated[str, typer.Argument(metavar="ID", help="id of a run, or a prefix of it")],
    lake: LakeOption = None,
) -> None:
    """Show a run: its steps with their states, verdicts and costs, and its result."""
    from flows.display import terminal
    from flows.jobs import runs
    from flows.jobs.body import body
    from flows.storage.lake import Lake

    store = Lake.existing(lake)
    row = runs.find(store, run)
    _show(store, row)
    if row["patch"] is not None:
        terminal.write(f"\n{body(row, '')}")


@pipeline_app.command()
def delete(name: _Name) -> None:
    """Delete a deployed pipeline with its schedule. Its runs stay in the lake."""
    from flows.display.terminal import show
    from flows.jobs import deployed

    asyncio.run(deployed.delete(name))
    show(f"pipeline {name} is deleted; its runs stay in the lake")


def continue_run(store: "Lake", run: str) -> None:
    """Continue a run as it was declared."""
    from flows.jobs import runs

    _run(runs.pipeline_of(runs.find(store, run)), store, run)


def _run(definition: "Pipeline", store: "Lake", run_id: str | None) -> None:
    from flows.cli import running
    from flows.jobs import runs
    from flows.server.api import prefect_api

    with prefect_api():
        from flows.cells.attempts import on_step
        from flows.jobs.pipeline import pipeline

        on_step.set(partial(running.show_step, full=False))
        ended = running.run_flow(
            lambda: pipeline(definition, str(store.root), run=run_id), definition.needs_litellm
        )
    _show(store, runs.find(store, ended))


def _show(store: "Lake", row: "Row") -> None:
    from rich.markup import escape
    from rich.table import Table

    from flows.display import terminal
    from flows.jobs import rows, runs

    detail = f": {row['detail']}" if row["detail"] else ""
    terminal.show(f"run {row['job_id']} of {runs.pipeline_of(row).name}: {row['state']}{detail}")
    table = Table("step", "state", "verdict", "arm", "cost", "job")
    steps = runs.read_states(row, store)
    for step in steps:
        cost = "" if step["cost_usd"] is None else f"{step['cost_usd']:.2f}"
        verdict, arm = rows.say_verdict(step["verdict"]), step["arm"] or ""
        cells = (step["name"], step["state"], verdict, arm, cost, step["job"] or "")
        table.add_row(*map(escape, cells))
    terminal.out().print(table)
    for step in steps:
        if step["state"] == "waiting":
            terminal.show(f"`durabench job approve {step['job']}` approves step {step['name']}")
    if result := row["pull_request"] or row["branch"]:
        terminal.show(result)
    elif row["state"] == "waiting":
        terminal.show(f"`durabench job approve {row['job_id']}` publishes it")
