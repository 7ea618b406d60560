"""Solve and grade one instance, showing every step."""

from typing import Annotated, Literal

import typer

from flows.cli.options import (
    ApiBaseOption,
    DatasetOption,
    EnvironmentOption,
    FullOption,
    LakeOption,
    ModelOption,
    SplitOption,
)


def debug(
    instance: Annotated[str, typer.Argument(help="instance id")],
    arm: Annotated[
        str, typer.Option("--arm", "-a", help="mini, mini_retry, durable, gold or null")
    ] = "mini",
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    skill: Annotated[float, typer.Option(help="of the simulated model, without --model")] = 1.0,
    environment: EnvironmentOption = None,
    lake: LakeOption = None,
    task_runs: Annotated[
        bool,
        typer.Option("--task-runs", help="every step a task run on the Prefect server, too"),
    ] = False,
    full: FullOption = False,
) -> None:
    """Solve and grade one instance afresh, printing a line for every step."""
    from flows.cli import running

    trace: Literal["off", "steps"] = "steps" if task_runs else "off"
    running.debug(
        instance,
        arm,
        dataset,
        split,
        model,
        api_base,
        skill,
        environment,
        lake,
        trace,
        full=full,
    )
