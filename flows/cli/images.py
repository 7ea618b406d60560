"""Check, build, pull, test and remove the images of instances."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
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
from flows.display.errors import IncompleteRun, UsageError
from flows.display.terminal import show
from reports.format import plural

if TYPE_CHECKING:
    from eval.types import Instance

PULLS_AT_ONCE = 2

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
    from eval import images

    statuses = images.check(_select(dataset, split, ids, regex, slice_), dataset)
    missing = [status for status in statuses if not status.present]
    for status in missing:
        show(f"missing  {status.instance_id}  {status.how}")
    total = plural(len(statuses), "image")
    show(f"available locally: {len(statuses) - len(missing)} of {total}")
    if missing:
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
    from eval import images, instances
    from flows.storage.images import ImageCache
    from flows.storage.lake import Lake

    repo = instances.task_repo(dataset)
    if repo is None:
        raise UsageError(f"{dataset} is not a task repo: its images are pulled, not built")
    chosen = _select(dataset, split, ids, regex, slice_)
    cache = ImageCache.of(Lake.open(lake))
    actions: Counter[str] = Counter()
    for image in images.build(chosen, repo):
        if image.action == "built":
            cache.record_build(image.image)
        actions[image.action] += 1
        show(f"{image.action:<8} {image.instance_id}  {image.duration_s:.1f} s")
    show(f"{actions['built']} built, {actions['current']} were current")


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
    from eval import instances
    from eval.errors import ImageError
    from flows.storage.images import ImageCache
    from flows.storage.lake import Lake

    if instances.task_repo(dataset) is not None:
        raise UsageError(
            f"{dataset} is a task repo: `durabench images build --dataset {dataset}` builds its "
            "images"
        )
    chosen = _select(dataset, split, ids, regex, slice_)
    cache, failed = ImageCache.of(Lake.open(lake)), 0
    with ThreadPoolExecutor(PULLS_AT_ONCE) as pool:
        pulls = [pool.submit(cache.fetch, instance, dataset) for instance in chosen]
        try:
            for count, done in enumerate(as_completed(pulls), 1):
                try:
                    result = str(done.result())
                except ImageError as error:
                    failed += 1
                    result = str(error)
                show(f"[{count}/{len(pulls)}] {result}")
        finally:
            cache.store.stop()
            pool.shutdown(cancel_futures=True)
    if failed:
        total = plural(len(pulls), "image")
        raise IncompleteRun(f"{failed} of {total} could not be pulled")


def _select(
    dataset: str, split: str, ids: list[str] | None, regex: str, slice_: str
) -> "list[Instance]":
    from eval.selection import Selection
    from flows.experiments import plan

    return plan.select(dataset, split, Selection(ids=ids or [], regex=regex, slice=slice_))


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
    from flows.storage.images import GB, ImageCache
    from flows.storage.lake import Lake

    cache = ImageCache.of(Lake.existing(lake), keep_gb)
    removed = cache.make_room(dry_run=dry_run).removed
    for row in removed:
        verb = "would remove" if dry_run else "removed"
        show(f"{verb}  {row['image']}  needed last {row['last_needed_at']:%Y-%m-%d %H:%M}")
    if dry_run:
        show(f"{plural(len(removed), 'image')} to remove, which --remove does")
    else:
        images = plural(len(removed), "image")
        show(f"{images} removed, {cache.get_cached_bytes() / GB:.2f} GB are kept")


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
    from flows.cells.images.preflight import Checked, check_all, line
    from flows.experiments import declaration as experiments
    from flows.experiments import plan, workspaces
    from flows.storage.lake import Lake

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
    store = Lake.open(lake)

    async def check_each() -> list[Checked]:
        chosen = plan.load(declared)
        await workspaces.decide("docker", chosen)
        done: list[Checked] = []
        async for checked in check_all(chosen, declared, store, concurrency):
            done.append(checked)
            show(f"[{len(done)}/{len(chosen)}] {line(checked)}")
        return done

    done = asyncio.run(check_each())
    unknown = [checked for checked in done if not checked.is_known]
    failed = [checked for checked in done if checked.reasons and checked.is_known]
    total = plural(len(done), "image")
    show(f"passed: {len(done) - len(failed) - len(unknown)} of {total}")
    if unknown:
        raise IncompleteRun(f"{len(unknown)} of {total} could not be checked")
    if failed:
        raise typer.Exit(EXIT_GATE)
