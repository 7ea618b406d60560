"""Run or resume an experiment."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import ApiBaseOption, EnvironmentOption, LakeOption, ModelOption


def run(
    experiment: Annotated[Path, typer.Argument(help="experiment file in YAML")],
    lake: LakeOption = None,
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    environment: EnvironmentOption = None,
    name: Annotated[str | None, typer.Option(help="another name for the results")] = None,
    concurrency: Annotated[int | None, typer.Option(help="cells at the same time")] = None,
    grade: Annotated[bool, typer.Option(help="grade now, or leave it to a later run")] = True,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="reuse no earlier result: append the time to the name"),
    ] = False,
) -> None:
    """Run an experiment. Running it again resumes it: only missing work is done."""
    from flows.cli import running
    from flows.display.terminal import warn
    from flows.experiments import declaration as experiments

    declared = running.overridden(
        experiments.load(experiment),
        model=model,
        api_base=api_base,
        environment=environment,
        name=name,
        concurrency=concurrency,
    )
    if fresh:
        declared = declared.afresh()
        warn(f"results are filed under {declared.name}")
    running.benchmark(declared, lake, grade=grade)
