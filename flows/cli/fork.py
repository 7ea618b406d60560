"""Fork an attempt at a step."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import ApiBaseOption, LakeOption, ModelOption


def fork(
    attempt: Annotated[str, typer.Argument(help="attempt id, or a prefix of it")],
    at: Annotated[str, typer.Option(help="first step to run anew, as shown by trace")],
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    options: Annotated[
        Path | None,
        typer.Option(help="YAML file with changed options of the arm, such as `profile`"),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Fork an attempt at a step, with another model or profile.

    Earlier steps are reused, not paid for again.
    """
    from flows.cli import running

    running.fork(attempt, at, model, api_base, options, lake)
