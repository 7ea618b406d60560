"""Removal of images and repositories that can be fetched again, and of old artifacts."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from rich.progress import track

from eval import repositories
from eval.errors import ImageError
from eval.repositories import RepositorySource
from flows.display.terminal import error_console
from flows.storage import journals
from flows.storage.images import ImageCache, cache_folder
from flows.storage.job_names import FINAL
from flows.storage.lake import Lake
from reports.format import plural

T = TypeVar("T")


@dataclass(frozen=True)
class Pruned:
    """Removable or removed data of one kind."""

    kind: str
    what: str
    size_bytes: int = 0


def prune_images(lake: Lake, before: datetime, *, remove: bool) -> Pruned:
    """Prune images that a run would pull or build again."""
    if not lake.all_shared("images"):
        return Pruned("images", "0 were pulled or built for this lake")
    try:
        images = ImageCache.of(lake)
        old = [row for row in images.list_cached() if row["last_needed_at"] < before]
        size = images.store.size({row["image_digest"] for row in old})
        if remove:
            old = [row for row in show_progress(old, "images") if images.remove(row)]
    except ImageError as error:
        return Pruned("images", f"not checked: {error}")
    return Pruned("images", f"{len(old)} not needed since {before:%Y-%m-%d}", size)


def prune_mirrors(lake: Lake, before: datetime, *, remove: bool) -> Pruned:
    """Prune mirrors that the next job on their repository would fetch again."""
    needed = {
        repositories.mirror_path(RepositorySource(row["source"], row["repo"]), cache_folder())
        for row in lake.all_shared("jobs")
        if row["state"] not in FINAL
    }
    unused = repositories.find_unused_mirrors(cache_folder(), before)
    removable = [mirror for mirror in unused if mirror.path not in needed]
    size = sum(mirror.size_bytes for mirror in removable)
    if remove:
        for mirror in show_progress(removable, "mirrors"):
            repositories.remove_mirror(mirror)
    what = f"{len(removable)} of repositories without a job since {before:%Y-%m-%d}"
    if removable:
        what += "; commits that were not pushed are lost, and their patches are kept"
    return Pruned("mirrors", what, size)


def prune_artifacts(
    lake: Lake, experiments: list[str], before: datetime, *, remove: bool
) -> Pruned:
    """Prune artifact versions that only the history of an artifact shows."""
    from flows.server import artifacts  # Prefect takes a second to import

    lake_id = journals.lake_id(lake)
    with artifacts.connect() as client:
        if client is None:
            return Pruned("artifacts", "not checked: PREFECT_API_URL is not set")
        old = {
            version
            for name in show_progress(experiments, "artifacts")
            for version in artifacts.old_versions(client, name, lake_id, before)
        }
        if remove:
            artifacts.remove(client, show_progress(old, "artifacts"))
    size = sum(version.size_bytes for version in old)
    return Pruned("artifacts", plural(len(old), "superseded version"), size)


def show_progress(items: Iterable[T], what: str) -> Iterable[T]:
    """Return the items with a progress bar on the terminal."""
    console, listed = error_console, list(items)
    return track(listed, what, console=console, transient=True, disable=not console.is_terminal)
