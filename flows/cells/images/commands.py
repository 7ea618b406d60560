"""The commands of `durabench images`."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

from eval import images, instances
from eval.errors import ImageError
from eval.selection import Selection
from eval.types import Instance
from flows.display.errors import IncompleteRun, UsageError
from flows.display.terminal import show
from flows.experiments import plan, workspaces
from flows.storage.images import GB, ImageCache
from flows.storage.lake import Lake

if TYPE_CHECKING:
    from flows.cells.images.preflight import Checked
    from flows.experiments.declaration import Experiment

PULLS_AT_ONCE = 2


def check(dataset: str, split: str, wanted: Selection) -> bool:
    """Print the missing images. Return True if all are available locally.

    Raises:
        DatasetError: the dataset or the selection cannot be used.
        ImageError: no daemon answers.
    """
    statuses = images.check(_selected(dataset, split, wanted), dataset)
    missing = [status for status in statuses if not status.present]
    for status in missing:
        show(f"missing  {status.instance_id}  {status.how}")
    show(f"{len(statuses) - len(missing)} of {len(statuses)} images are available locally")
    return not missing


def build(dataset: str, split: str, wanted: Selection, lake_path: str | None) -> None:
    """Build the images of a task repo. Print one line for each.

    Raises:
        UsageError: the dataset is not a task repo.
        DatasetError, ImageError: the dataset cannot be used, or an image cannot be built.
    """
    repo = instances.task_repo(dataset)
    if repo is None:
        raise UsageError(f"{dataset} is no task repo: its images are pulled, not built")
    chosen = _selected(dataset, split, wanted)
    cache = ImageCache.of(Lake.open(lake_path))
    actions: Counter[str] = Counter()
    for image in images.build(chosen, repo):
        if image.action == "built":
            cache.built(image.image)
        actions[image.action] += 1
        show(f"{image.action:<8} {image.instance_id}  {image.duration_s:.1f} s")
    show(f"{actions['built']} built, {actions['current']} were current")


def pull(dataset: str, split: str, wanted: Selection, lake_path: str | None) -> None:
    """Pull the missing images of a dataset. Print one line for each.

    Raises:
        UsageError: the dataset is a task repo.
        DatasetError, ImageError: the dataset cannot be used, or no daemon answers.
        IncompleteRun: some images could not be pulled.
    """
    if instances.task_repo(dataset) is not None:
        raise UsageError(
            f"{dataset} is a task repo: `durabench images build --dataset {dataset}` builds its "
            "images"
        )
    chosen = _selected(dataset, split, wanted)
    cache, failed = ImageCache.of(Lake.open(lake_path)), 0
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
        raise IncompleteRun(f"{failed} of {len(pulls)} images could not be pulled")


def prune(keep_gb: float, lake_path: str | None, *, dry_run: bool) -> None:
    """Remove images that were pulled or built for a lake, least recently needed first.

    With `dry_run`, only list the images that would be removed.

    Raises:
        ImageError: no daemon answers.
    """
    cache = ImageCache.of(Lake.existing(lake_path), keep_gb)
    removed = cache.make_room(dry_run=dry_run).removed
    for row in removed:
        verb = "would remove" if dry_run else "removed"
        show(f"{verb}  {row['image']}  needed last {row['last_needed_at']:%Y-%m-%d %H:%M}")
    if dry_run:
        show(f"{len(removed)} images would be removed; --remove removes them")
    else:
        show(f"{len(removed)} images removed, {cache.cached_bytes() / GB:.2f} GB are kept")


def preflight(experiment: "Experiment", lake_path: str | None, concurrency: int) -> bool:
    """Check the images of an experiment's instances, one line for each. Return True if all pass.

    Raises:
        UsageError: Docker is not available.
        DatasetError: the dataset or the selection cannot be used.
        ImageError: no daemon answers.
        IncompleteRun: some images could not be checked because the infrastructure failed.
    """
    from flows.cells.images.preflight import check_all, line
    from flows.experiments import plan

    lake = Lake.open(lake_path)

    async def check_each() -> "list[Checked]":
        chosen = plan.load(experiment)
        await workspaces.decide("docker", chosen)
        done = []
        async for checked in check_all(chosen, experiment, lake, concurrency):
            done.append(checked)
            show(f"[{len(done)}/{len(chosen)}] {line(checked)}")
        return done

    done = asyncio.run(check_each())
    unknown = [checked for checked in done if not checked.is_known]
    failed = [checked for checked in done if checked.reasons and checked.is_known]
    show(f"{len(done) - len(failed) - len(unknown)} of {len(done)} images pass")
    if unknown:
        raise IncompleteRun(f"{len(unknown)} of {len(done)} images could not be checked")
    return not failed


def _selected(dataset: str, split: str, wanted: Selection) -> list[Instance]:
    return plan.select(dataset, split, wanted)
