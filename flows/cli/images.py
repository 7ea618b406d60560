"""Check, build, pull, test and remove the images of instances."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.exits import EXIT_GATE
from flows.cli.options import (
    DatasetOption,
    IdsOption,
    LakeOption,
    RegexOption,
    SliceOption,
    SplitOption,
)

if TYPE_CHECKING:
    from eval.selection import Selection

images_app = typer.Typer(
    name="images",
    help="Check, build, pull and remove the images of instances.",
    no_args_is_help=True,
)


@images_app.command("check")
def images_check(
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    ids: IdsOption = None,
    regex: RegexOption = "",
    slice_: SliceOption = "",
) -> None:
    """List missing images and how to get them. Exit code 1 if any is missing."""
    from flows.cells.images import commands

    if not commands.check(dataset, split, _selection(ids, regex, slice_)):
        raise typer.Exit(EXIT_GATE)


@images_app.command("build")
def images_build(
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    ids: IdsOption = None,
    regex: RegexOption = "",
    slice_: SliceOption = "",
    lake: LakeOption = None,
) -> None:
    """Build the missing images of a task repo."""
    from flows.cells.images import commands

    commands.build(dataset, split, _selection(ids, regex, slice_), lake)


@images_app.command("pull")
def images_pull(
    dataset: DatasetOption,
    split: SplitOption = "test",
    ids: IdsOption = None,
    regex: RegexOption = "",
    slice_: SliceOption = "",
    lake: LakeOption = None,
) -> None:
    """Pull the missing images of a dataset. A run does this automatically."""
    from flows.cells.images import commands

    commands.pull(dataset, split, _selection(ids, regex, slice_), lake)


def _selection(ids: list[str] | None, regex: str, slice_: str) -> "Selection":
    from eval.selection import Selection

    return Selection(ids=ids or [], regex=regex, slice=slice_)


@images_app.command("prune")
def images_prune(
    keep_gb: Annotated[
        float, typer.Option(min=0, help="gigabytes of most recently needed images to keep")
    ] = 0.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run/--remove", help="only list the images, or remove them")
    ] = True,
    lake: LakeOption = None,
) -> None:
    """Remove images that were built or pulled for a lake.

    Images in use, and images that were already available before, are never removed.
    """
    from flows.cells.images import commands

    commands.prune(keep_gb, lake, dry_run=dry_run)


@images_app.command("preflight")
def images_preflight(
    experiment: Annotated[
        Path | None, typer.Argument(help="experiment file, instead of --dataset")
    ] = None,
    dataset: DatasetOption = "bundled",
    split: SplitOption = "test",
    ids: IdsOption = None,
    regex: RegexOption = "",
    slice_: SliceOption = "",
    network: Annotated[
        bool, typer.Option("--network", help="give containers network access")
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, help="images at the same time")] = 2,
    lake: LakeOption = None,
) -> None:
    """Check that images can be trusted: no future commits in git, gold passes, null fails.

    Earlier results are read from the lake. Exit code 1 if any image fails.
    """
    from flows.cells.images import commands
    from flows.experiments import declaration as experiments

    content = {
        "name": "preflight",
        "dataset": dataset,
        "split": split,
        "select": {"ids": ids or [], "regex": regex, "slice": slice_},
        "network": network,
        "arms": [{"name": "gold", "agent": "gold"}],
    }
    declared = (
        experiments.load(experiment) if experiment else experiments.parse(content, "command line")
    )
    if not commands.preflight(declared, lake, concurrency):
        raise typer.Exit(EXIT_GATE)
