"""Remove data that is no longer needed."""

from typing import Annotated

import typer

from flows.cli.options import LakeOption


def prune(
    older_than: Annotated[
        str, typer.Option(help="minimum time without activity, such as 30d or 12h")
    ] = "30d",
    experiment: Annotated[str | None, typer.Option(help="restrict to this experiment")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="steps, bodies, files, images, mirrors or artifacts; repeatable"),
    ] = None,
    results: Annotated[
        bool, typer.Option("--results", help="with --experiment: remove all of it, rows included")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run/--remove", help="only show what would be removed, or remove it"),
    ] = True,
    lake: LakeOption = None,
) -> None:
    """Remove data that is no longer needed. Results and costs are kept.

    Covers the steps of ended attempts, unreferenced payloads (bodies), leftover files, images,
    mirrors of repositories and old artifacts.
    """
    from flows.operation import pruning

    pruning.prune(lake, older_than, experiment, only or [], results=results, remove=not dry_run)
