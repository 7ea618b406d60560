"""Remove data that is no longer needed."""

from typing import Annotated

import typer

from flows.cli.options import LakeOption


def prune(
    older_than: Annotated[
        str, typer.Option(help="without activity for so long, as 30d or 12h")
    ] = "30d",
    experiment: Annotated[str | None, typer.Option(help="only what is this one's")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="steps, bodies, files, images or artifacts; may be repeated"),
    ] = None,
    results: Annotated[
        bool, typer.Option("--results", help="with --experiment: that one whole, with all rows")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run/--remove", help="only show what would go, or remove it")
    ] = True,
    lake: LakeOption = None,
) -> None:
    """Remove data that is no longer needed. Results and costs are kept.

    Covers the steps of ended attempts, unreferenced payloads (bodies), leftover files, images and
    old artifacts.
    """
    from flows.operation import pruning

    pruning.prune(lake, older_than, experiment, only or [], results=results, remove=not dry_run)
