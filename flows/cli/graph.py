"""Show what depends on what in an attempt."""

from typing import Annotated, Literal

import typer

from flows.cli.options import LakeOption


def graph(
    attempt: Annotated[str, typer.Argument(help="attempt id, or a prefix of it")],
    format_: Annotated[
        Literal["tree", "mermaid", "json"], typer.Option("--format", help="how to show it")
    ] = "tree",
    stale_if: Annotated[
        list[str] | None,
        typer.Option(help="mark what depends on role=…, prompt=…, option=… or step=…"),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Show which steps of an attempt use what others left, and what a change would make stale."""
    from flows.cli import graphing

    graphing.show(attempt, format_, stale_if or [], lake)
