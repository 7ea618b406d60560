"""Say why an attempt failed, and what to try."""

from typing import Annotated

import typer

from flows.cli.options import LakeOption


def diagnose(
    attempt: Annotated[str, typer.Argument(help="attempt id, or a prefix of it")],
    lake: LakeOption = None,
) -> None:
    """Show where an attempt's lines come from, what let them pass, and a fork to try."""
    from flows.cli import diagnosing

    diagnosing.show(attempt, lake)
