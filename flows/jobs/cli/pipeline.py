"""Pipelines of jobs: `durabench pipeline`."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import LakeOption

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
    from flows.jobs.cli import pipelines

    pipelines.check(file)


@pipeline_app.command()
def deploy(file: _File) -> None:
    """Deploy a definition on the configured Prefect server, with its schedule.

    It becomes a deployment of the flow `pipeline`, in the work pool of the deployment
    `pipeline/pipeline`. Deploying the same name again replaces it.
    """
    from flows.jobs.cli import pipelines

    pipelines.deploy(file)


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
    from flows.jobs.cli import pipelines

    pipelines.run(pipeline, run, lake)


@pipeline_app.command()
def runs(
    name: Annotated[str | None, typer.Argument(help="name of a pipeline; default all")] = None,
    lake: LakeOption = None,
) -> None:
    """List the runs of a lake, the latest first."""
    from flows.jobs.cli import pipelines

    pipelines.runs_of(name, lake)


@pipeline_app.command()
def show(
    run: Annotated[str, typer.Argument(metavar="ID", help="id of a run, or a prefix of it")],
    lake: LakeOption = None,
) -> None:
    """Show a run: its steps with their states, verdicts and costs, and its result."""
    from flows.jobs.cli import pipelines

    pipelines.show(run, lake)


@pipeline_app.command()
def delete(name: _Name) -> None:
    """Delete a deployed pipeline with its schedule. Its runs stay in the lake."""
    from flows.jobs.cli import pipelines

    pipelines.delete(name)
