"""Show the steps of an attempt."""

from typing import Annotated

import typer

from flows.cli.options import FullOption, LakeOption


def trace(
    attempt: Annotated[str, typer.Argument(help="attempt id, or a prefix of it")],
    full: FullOption = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="follow until the attempt ends")
    ] = False,
    tree: Annotated[bool, typer.Option("--tree", help="show the steps under their scopes")] = False,
    lake: LakeOption = None,
) -> None:
    """Show the steps of an attempt with their cost, one per line, even while it is running."""
    from flows.cli import tracing
    from flows.display.errors import UsageError

    if tree and (follow or full):
        raise UsageError("--tree goes neither with --follow nor with --full: leave them out")
    tracing.trace(attempt, lake, full=full, follow=follow, as_tree=tree)
