"""Solve and grade one instance, showing every step."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import (
    ApiBaseOption,
    DatasetOption,
    EnvironmentOption,
    FullOption,
    LakeOption,
    ModelOption,
    ResourcesOption,
    SplitOption,
)

_IN_THE_FILE = ("dataset", "split", "skill")
"""Parameters that the experiment file replaces."""


def debug(
    context: typer.Context,
    instance: Annotated[str, typer.Argument(help="instance id")],
    arm: Annotated[
        str,
        typer.Option(
            "--arm",
            "-a",
            help="mini, mini_retry, durable, loop, staged, gold or null, or an arm of the file",
        ),
    ] = "mini",
    experiment: Annotated[
        Path | None,
        typer.Option(
            "--experiment", "-x", help="experiment file, for an arm with its options and budgets"
        ),
    ] = None,
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    skill: Annotated[
        float, typer.Option(help="skill of the simulated model, which runs without --model")
    ] = 1.0,
    environment: EnvironmentOption = None,
    resources: ResourcesOption = None,
    lake: LakeOption = None,
    full: FullOption = False,
) -> None:
    """Solve and grade one instance afresh, printing a line for every step."""
    from flows.cli import running

    if experiment is not None:
        _refuse(context)
        declared = running.one_cell(
            experiment, instance, arm, model, api_base, environment, resources
        )
    else:
        declared = running.one_instance(
            instance, arm, dataset, split, model, api_base, skill, environment, resources
        )
    running.debug(declared, instance, arm, lake, full=full)


def _refuse(context: typer.Context) -> None:
    """Refuse options that would contradict the experiment file.

    Raises:
        UsageError: such an option was given.
    """
    from flows.display.errors import UsageError

    for name in _IN_THE_FILE:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"--{name} does not go with --experiment: the file has it")
