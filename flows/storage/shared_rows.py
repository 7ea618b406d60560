"""A table that belongs to no experiment, kept in memory by programs that read it often."""

import os
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flows.storage.lake import Lake, Row

_READERS = 4


class SharedRows:
    """The rows of a table, of which only changed files are read again."""

    def __init__(self, lake: Lake, table: str, columns: Sequence[str]) -> None:
        self._lake, self._table, self._columns = lake, table, columns
        self._kept: dict[str, tuple[Hashable, Row]] = {}

    def read(self) -> list[Row]:
        """Return all rows with these columns, in no order.

        Raises:
            InfrastructureError: a disk or object-store operation failed.
        """
        with self._lake.reading():
            there = dict(self._stamps())
        changed = [unit for unit, stamp in there.items() if self._stamp_of(unit) != stamp]
        with ThreadPoolExecutor(_READERS) as readers:
            rows = list(readers.map(self._row, changed))
        kept = {unit: each for unit, each in self._kept.items() if unit in there}
        for unit, row in zip(changed, rows, strict=True):
            if row is not None:
                kept[unit] = (there[unit], row)
        self._kept = kept
        return [row for _, row in kept.values()]

    def _stamp_of(self, unit: str) -> Hashable:
        return self._kept[unit][0] if unit in self._kept else None

    def _row(self, unit: str) -> Row | None:
        return self._lake.read_shared(self._table, unit, self._columns)

    def _stamps(self) -> Iterator[tuple[str, Hashable]]:
        """Yield each unit with a value that every write changes."""
        folder = self._lake.root / self._table
        if isinstance(folder, Path):
            if folder.is_dir():
                yield from _local(folder)
            return
        for name, info in folder.fs.find(folder.path, detail=True).items():
            if name.endswith(".parquet"):
                stamp = (info.get("ETag"), str(info.get("LastModified")), info.get("size"))
                yield name.rpartition("/")[2].removesuffix(".parquet"), stamp


def _local(folder: Path) -> Iterator[tuple[str, Hashable]]:
    with os.scandir(folder) as files:
        for file in files:
            if file.name.endswith(".parquet"):
                found = file.stat()
                stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
                yield file.name.removesuffix(".parquet"), stamp
