"""Compacted files of the lake: many units of work in one Parquet file.

`durabench prune` writes them to `<table>/experiment=<name>/arm=<name>/compacted/`. Such a file
never changes, and its metadata names its units in the order of their rows. If a unit also has a
single file, it was written again, and the single file counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from upath import UPath

FOLDER = "compacted"
"""Name of the folder next to the files of single units."""

PER_CELL = ("llm_calls", "steps", "predictions", "evaluations", "attempts")
"""The tables that are compacted: those with a file for each cell."""

REWRITTEN = ("evaluations",)
"""Tables with units that may be written again after their compaction, for example by an audit."""

_UNITS = b"durabench.units"


@dataclass(frozen=True)
class CompactedUnit:
    """The place of a unit of work in a compacted file."""

    start: int
    """Number of its first row."""
    rows: int
    results: tuple[str, ...]
    """Names of the cached results of the tasks that wrote it."""


@dataclass(frozen=True)
class CompactedFile:
    """A compacted file and its units in the order of their rows."""

    path: Path | UPath
    units: Mapping[str, CompactedUnit]

    @cached_property
    def units_by_result(self) -> Mapping[str, str]:
        """The names of units by the names of their cached results."""
        return {name: unit for unit, place in self.units.items() for name in place.results}

    def read(self, unit: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a unit, with these columns if the file has them, or with all.

        Raise FileNotFoundError if a later compaction has replaced the file.
        """
        place = self.units[unit]
        table = _read_compacted(self.path, None if columns is None else tuple(columns))
        return table.slice(place.start, place.rows)

    def find_rows(self, units: set[str]) -> list[tuple[int, int]]:
        """Return the first and the last row number of each range of rows of these units."""
        ranges = []
        for is_wanted, run in groupby(self.units.items(), lambda item: item[0] in units):
            places = [place for _, place in run]
            if is_wanted:
                ranges.append((places[0].start, places[-1].start + places[-1].rows - 1))
        return ranges


def pack(units: Sequence[tuple[str, pa.Table, tuple[str, ...]]]) -> pa.Table:
    """Return the table of a compacted file.

    `units` are names, rows of one schema, and names of cached results.
    """
    index = {unit: [len(rows), *results] for unit, rows, results in units}
    table = pa.concat_tables(rows for _, rows, _ in units)
    return table.replace_schema_metadata({_UNITS: json.dumps(index)}).combine_chunks()


@lru_cache(maxsize=256)
def open_compacted(path: Path | UPath) -> CompactedFile:
    """Return a compacted file with its units.

    Raise FileNotFoundError if a later compaction has replaced it, and pyarrow.ArrowException if it
    is damaged.
    """
    with _open(path) as source, _marking_damage():
        metadata = pq.read_schema(source).metadata or {}
    if _UNITS not in metadata:
        raise pa.ArrowInvalid("its metadata names no units")
    units, start = {}, 0
    for unit, (rows, *results) in json.loads(metadata[_UNITS]).items():
        units[unit] = CompactedUnit(start, rows, tuple(results))
        start += rows
    return CompactedFile(path, units)


def read_table(source: Any, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of an open file. It is small, so other threads cost more than they save.

    Raise pyarrow.ArrowException if it is damaged.
    """
    with _marking_damage():
        file = pq.ParquetFile(source)
        if columns is not None:
            columns = [name for name in columns if name in file.schema_arrow.names]
        return file.read(columns=columns, use_threads=False)


@contextmanager
def _marking_damage() -> Iterator[None]:
    """Convert the OSError that damaged content raises. A disk raises it when a file is opened."""
    try:
        yield
    except OSError as error:
        raise pa.ArrowInvalid(str(error)) from error


@lru_cache(maxsize=32)
def _read_compacted(path: Path | UPath, columns: tuple[str, ...] | None) -> pa.Table:
    with _open(path) as source:
        return read_table(source, columns)


def _open(path: Path | UPath) -> IO[bytes]:
    """Open a file; from an object store, its content, with one request."""
    return path.open("rb") if isinstance(path, Path) else BytesIO(path.read_bytes())
