"""The local cache: bundled repositories, and images that were pulled or built for a lake.

Images are recorded in the lake's table `images`, so that later runs know them, and images that
existed before are never removed.
"""

import hashlib
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from eval.errors import ImageError
from eval.image_store import How, ImageStore
from eval.instances import task_repo
from eval.types import Instance
from flows.storage.lake import Lake, Row

CACHE_VARIABLE = "DURABENCH_CACHE"

GB = 10**9


def cache_folder() -> Path:
    """Return the folder of bundled repositories: `DURABENCH_CACHE` or the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(CACHE_VARIABLE) or Path(base) / "durabench")


@dataclass(frozen=True)
class Fetched:
    """An image that is available locally."""

    image: str
    image_id: str
    how: How | None
    """None if the image already existed."""
    duration_s: float = 0.0

    def __str__(self) -> str:
        how = f"{self.how} in {self.duration_s:.1f} s" if self.how else "already present"
        return f"image {self.image}: {how}"


@dataclass(frozen=True)
class EvictionResult:
    """Result of an eviction pass."""

    is_enough: bool
    removed: tuple[Row, ...]
    """Rows of `images`, in the order of their removal."""


class ImageCache:
    """Pulls or builds images, and evicts the least recently needed ones above a limit in bytes.

    The limit applies to the disk space that removing all recorded images would free. All methods
    block.
    """

    def __init__(self, lake: Lake, store: ImageStore, limit_bytes: int | None = None) -> None:
        self.store = store
        self.limit_bytes = limit_bytes
        self._lake = lake

    @classmethod
    def of(cls, lake: Lake, keep_gb: float | None = None) -> "ImageCache":
        """Return the images of a lake, on the daemon selected by the environment.

        Raises:
            ImageError: no daemon answers.
        """
        limit_bytes = None if keep_gb is None else round(keep_gb * GB)
        return cls(lake, ImageStore(cache_folder()), limit_bytes)

    def fetch(self, instance: Instance, dataset: str) -> Fetched:
        """Pull the image of an instance if it is missing. Build it if the dataset is a task repo.

        Raises:
            ImageError: the image cannot be pulled or built; the message says how to get it.
        """
        image, repo, clock = instance.image, task_repo(dataset), time.perf_counter()
        with self.store.fetching(image):
            if (image_id := self.find(image)) is not None:
                return Fetched(image, image_id, None)
            row = _row(image, "pulled" if repo is None else "built")
            # Record the image first, so that it counts as ours even if this program is killed.
            self._write(row)
            try:
                how = self.store.fetch(instance, repo)
            except ImageError:
                self._write(row | {"removed_at": datetime.now(UTC)})
                raise
            image_id = self._record_arrival(row)
        if image_id is None:
            raise ImageError(f"the image {image} was {how}, and another program removed it at once")
        return Fetched(image, image_id, how, time.perf_counter() - clock)

    def find(self, image: str) -> str | None:
        """Return the id of a local image; None if it is not available."""
        return self.store.find([image]).get(image)

    def record_build(self, image: str) -> None:
        """Record that an image was built locally, so that it may be removed again."""
        self._record_arrival(_row(image, "built"))

    def record_need(self, image: str) -> None:
        """Record that a run needed an image until now."""
        row = self._lake.read_shared("images", _unit(image))
        if row and row["removed_at"] is None:
            self._write(row | {"last_needed_at": datetime.now(UTC)})

    def list_cached(self) -> list[Row]:
        """Return the rows of our images that are available locally, least recently needed first.

        Images removed or replaced by another program are recorded as removed.
        """
        for row in self._rows():
            if row["image_digest"] is None:
                # A dead program started its pull or build, unless it is still running.
                with self.store.fetching(row["image"], wait=False) as is_idle:
                    if is_idle and self._record_arrival(row) is None:
                        self._write(row | {"removed_at": datetime.now(UTC)})
        rows = [row for row in self._rows() if row["image_digest"] is not None]
        local = self.store.find(row["image"] for row in rows)
        cached = [row for row in rows if local.get(row["image"]) == row["image_digest"]]
        for row in rows:
            if row not in cached:
                self._write(row | {"removed_at": datetime.now(UTC)})
        return sorted(cached, key=lambda row: row["last_needed_at"])

    def get_expected_bytes(self, image: str) -> int:
        """Return the expected size of an image; 0 without a limit.

        This is its last known size, or else the largest size of any image, or else the whole limit.
        """
        if self.limit_bytes is None:
            return 0
        sizes = {
            row["image"]: row["size_bytes"]
            for row in self._lake.all_shared("images")
            if row["size_bytes"] is not None
        }
        return int(sizes.get(image) or max(sizes.values(), default=self.limit_bytes))

    def get_cached_bytes(self) -> int:
        """Return the disk space that removing all our images would free."""
        return self._bytes(self.list_cached())

    def make_room(self, expected_bytes: int = 0, *, dry_run: bool = False) -> EvictionResult:
        """Evict the least recently needed images until the expected size fits into the limit.

        Images that are in use are skipped.
        """
        if self.limit_bytes is None:
            return EvictionResult(True, ())
        cached, removed = self.list_cached(), []
        for row in list(cached):
            if self._fits(cached, expected_bytes):
                break
            if dry_run or self.remove(row):
                cached.remove(row)
                removed.append(row)
        return EvictionResult(self._fits(cached, expected_bytes), tuple(removed))

    def remove(self, row: Row) -> bool:
        """Remove the image of this row. Return False if the image is in use."""
        if not self.store.remove(row["image"], row["image_digest"]):
            return False
        self._write(row | {"removed_at": datetime.now(UTC)})
        return True

    def _rows(self) -> list[Row]:
        return [row for row in self._lake.all_shared("images") if row["removed_at"] is None]

    def _fits(self, rows: list[Row], expected_bytes: int) -> bool:
        if not self.limit_bytes:  # keep no image, even if its removal frees no space
            return not rows
        return self._bytes(rows) + expected_bytes <= self.limit_bytes

    def _bytes(self, rows: list[Row]) -> int:
        return self.store.size({row["image_digest"] for row in rows})

    def _record_arrival(self, row: Row) -> str | None:
        """Record id and size of a new image. Return its id; None if it is not available locally."""
        image_id = self.find(row["image"])
        if image_id is not None:
            self._write(row | {"image_digest": image_id, "size_bytes": self.store.size({image_id})})
        return image_id

    def _write(self, row: Row) -> None:
        self._lake.write_shared("images", _unit(row["image"]), row)


def last_digest(lake: Lake, image: str) -> str | None:
    """Return the last known id of an image of a lake; None if it was never pulled or built."""
    row = lake.read_shared("images", _unit(image))
    return row["image_digest"] if row else None


def _row(image: str, how: How) -> Row:
    """Return a row of `images` for an image that has not arrived yet."""
    now = datetime.now(UTC)
    return {
        "image": image,
        "image_digest": None,
        "how": how,
        "size_bytes": None,
        "brought_at": now,
        "last_needed_at": now,
        "removed_at": None,
    }


def _unit(image: str) -> str:
    return hashlib.sha256(image.encode()).hexdigest()[:24]
