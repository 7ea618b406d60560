"""Grade a predictions file."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import (
    DatasetOption,
    EnvironmentOption,
    LakeOption,
    ResourcesOption,
    SplitOption,
)


def grade(
    predictions: Annotated[Path, typer.Argument(help="all_preds.jsonl or preds.json")],
    name: Annotated[str, typer.Option(help="name for the results")],
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    environment: EnvironmentOption = None,
    timeout_s: Annotated[float, typer.Option(help="seconds per prediction")] = 1800.0,
    concurrency: Annotated[int, typer.Option(help="gradings at the same time")] = 4,
    network: Annotated[
        bool,
        typer.Option("--network", help="give containers network access, as scripts with pip need"),
    ] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="grade twice, and doubt verdicts that differ")
    ] = False,
    keep_gb: Annotated[
        float | None, typer.Option(help="gigabytes of images to keep; default all")
    ] = None,
    resources: ResourcesOption = None,
    lake: LakeOption = None,
) -> None:
    """Grade a predictions file from any agent and report on it, with an audit of every verdict."""
    from flows.cli import running

    running.grade(
        predictions,
        name,
        dataset,
        split,
        environment,
        timeout_s,
        concurrency,
        network,
        lake,
        audit,
        keep_gb,
        resources,
    )
