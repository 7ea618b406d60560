"""The images that were brought for a lake, and how many of them are kept.

The lake's table `images` says which they are, so that a later run knows it too and an image
that was here before is never removed.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from eval.errors import ImageError
from eval.image_store import How, ImageStore
from eval.instances import task_repo
from eval.types import Instance
from flows.experiments.workspaces import cache_folder
from flows.storage.lake import Lake, Row

GB = 10**9


@dataclass(frozen=True)
class Brought:
    """An image that is here."""

    image: str
    image_id: str
    how: How | None
    """None: it was here already."""
    duration_s: float = 0.0

    def __str__(self) -> str:
        how = f"{self.how} in {self.duration_s:.1f} s" if self.how else "was here"
        return f"image {self.image}: {how}"


@dataclass(frozen=True)
class Room:
    """What came of looking for room."""

    is_enough: bool
    removed: tuple[Row, ...]
    """Rows of `images`, in the order of their removal."""


class KeptImages:
    """Brings images and removes those that were needed longest ago, within a limit in bytes.

    Counted is what a removal of all that were brought would free. All methods block.
    """

    def __init__(self, lake: Lake, store: ImageStore, limit_bytes: int | None = None) -> None:
        self.store = store
        self.limit_bytes = limit_bytes
        self._lake = lake

    @classmethod
    def of(cls, lake: Lake, keep_gb: float | None = None) -> "KeptImages":
        """Those of a lake, on the daemon that the environment names.

        Raises:
            ImageError: no daemon answers.
        """
        limit_bytes = None if keep_gb is None else round(keep_gb * GB)
        return cls(lake, ImageStore(cache_folder()), limit_bytes)

    def bring(self, instance: Instance, dataset: str) -> Brought:
        """Have the image of an instance here: built if the dataset is a task repo, or pulled.

        Raises:
            ImageError: it cannot be had; the message says what would bring it.
        """
        image, repo, clock = instance.image, task_repo(dataset), time.perf_counter()
        with self.store.bringing(image):
            if (image_id := self._id(image)) is not None:
                return Brought(image, image_id, None)
            row = _row(image, "pulled" if repo is None else "built")
            # Before it comes, so that it is known as brought even if this program is killed.
            self._write(row)
            try:
                how = self.store.bring(instance, repo)
            except ImageError:
                self._write(row | {"removed_at": datetime.now(UTC)})
                raise
            image_id = self._arrived(row)
        if image_id is None:
            raise ImageError(f"the image {image} was {how}, and somebody removed it at once")
        return Brought(image, image_id, how, time.perf_counter() - clock)

    def built(self, image: str) -> None:
        """Note that an image was built here, so that it may be removed again."""
        self._arrived(_row(image, "built"))

    def needed(self, image: str) -> None:
        """Note that a run needed an image until now."""
        row = self._lake.read_shared("images", _unit(image))
        if row and row["removed_at"] is None:
            self._write(row | {"last_needed_at": datetime.now(UTC)})

    def kept(self) -> list[Row]:
        """What was brought and is here, least recently needed first.

        What somebody else removed or replaced is noted as removed.
        """
        for row in self._rows():
            if row["image_digest"] is None:
                self._settle(row)
        rows = [row for row in self._rows() if row["image_digest"] is not None]
        here = self.store.find(row["image"] for row in rows)
        kept = [row for row in rows if here.get(row["image"]) == row["image_digest"]]
        for row in rows:
            if row not in kept:
                self._write(row | {"removed_at": datetime.now(UTC)})
        return sorted(kept, key=lambda row: row["last_needed_at"])

    def expected_bytes(self, image: str) -> int:
        """What an image will probably take: as last time, or as much as the largest ever did;
        the whole limit where none ever came. 0 without a limit."""
        if self.limit_bytes is None:
            return 0
        sizes = {
            row["image"]: row["size_bytes"]
            for row in self._lake.all_shared("images")
            if row["size_bytes"] is not None
        }
        return int(sizes.get(image) or max(sizes.values(), default=self.limit_bytes))

    def kept_bytes(self) -> int:
        """What a removal of all that is kept would free."""
        return self._bytes(self.kept())

    def make_room(self, expected_bytes: int = 0, *, dry_run: bool = False) -> Room:
        """Remove what was needed longest ago until as much as expected fits into the limit.

        What cannot be removed now, as somebody uses it, is passed over.
        """
        if self.limit_bytes is None:
            return Room(True, ())
        gone: Callable[[Row], bool] = (lambda row: True) if dry_run else self.remove
        kept, removed = self.kept(), []
        for row in list(kept):
            if self._fits(kept, expected_bytes):
                break
            if gone(row):
                kept.remove(row)
                removed.append(row)
        return Room(self._fits(kept, expected_bytes), tuple(removed))

    def remove(self, row: Row) -> bool:
        """Remove an image, of which this is the row; False while somebody uses it."""
        if not self.store.remove(row["image"], row["image_digest"]):
            return False
        self._write(row | {"removed_at": datetime.now(UTC)})
        return True

    def _rows(self) -> list[Row]:
        return [row for row in self._lake.all_shared("images") if row["removed_at"] is None]

    def _fits(self, kept: list[Row], expected_bytes: int) -> bool:
        if not self.limit_bytes:  # then none is kept, though it may free nothing
            return not kept
        return self._bytes(kept) + expected_bytes <= self.limit_bytes

    def _bytes(self, rows: list[Row]) -> int:
        return self.store.size({row["image_digest"] for row in rows})

    def _id(self, image: str) -> str | None:
        return self.store.find([image]).get(image)

    def _settle(self, row: Row) -> None:
        """Find out what became of an image that a program began to bring, if it is dead."""
        with self.store.bringing(row["image"], wait=False) as nobody_brings_it:
            if nobody_brings_it and self._arrived(row) is None:
                self._write(row | {"removed_at": datetime.now(UTC)})

    def _arrived(self, row: Row) -> str | None:
        """Record the id and the size of an image that came; None if it is not here."""
        image_id = self._id(row["image"])
        if image_id is not None:
            self._write(row | {"image_digest": image_id, "size_bytes": self.store.size({image_id})})
        return image_id

    def _write(self, row: Row) -> None:
        self._lake.write_shared("images", _unit(row["image"]), row)


def last_digest(lake: Lake, image: str) -> str | None:
    """Id of an image when it was brought for a lake last; None if it never was."""
    row = lake.read_shared("images", _unit(image))
    return row["image_digest"] if row else None


def _row(image: str, how: How) -> Row:
    """A row of `images` for one that does not have come yet."""
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
