"""Fork an attempt at a step."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import ApiBaseOption, LakeOption, ModelOption


def fork(
    attempt: Annotated[str, typer.Argument(help="attempt id, or a prefix of it")],
    at: Annotated[
        str | None, typer.Option(help="first step to run anew, as shown by trace")
    ] = None,
    change: Annotated[
        Path | None,
        typer.Option(help="YAML file with the `model` and options that change"),
    ] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(help="STEP=FILE: the file holds what the step answers instead"),
    ] = None,
    never: Annotated[
        list[str] | None,
        typer.Option(help="regular expression of commands that are always run again"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="only say what would be bought again, at most")
    ] = False,
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    options: Annotated[
        Path | None,
        typer.Option(help="YAML file with changed options of the arm, such as `profile`"),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Fork an attempt at a step, or with a change, and reuse what does not depend on it.

    With --at, the steps before it are kept and all others are made anew. With --change or --edit,
    the agent runs again from the top, and every step whose inputs are the same is reused.
    """
    from flows.cli import forking

    if at is not None:
        forking.at_step(
            attempt,
            at,
            model,
            api_base,
            options,
            lake,
            alone=not (change or edit or never or dry_run),
        )
    else:
        forking.selective_fork(
            attempt,
            change,
            edit or [],
            never or [],
            lake,
            alone=not (model or api_base or options),
            dry_run=dry_run,
        )
