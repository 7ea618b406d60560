"""Units of work in the lake, each in a single file or in a compacted one.

A compaction removes the single file only when a compacted one has the rows. A reader that looks for
the single file first and for a compacted one afterwards finds the unit at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from reports.compacted import FOLDER, PER_CELL, REWRITTEN, CompactedFile, open_compacted, read_table
from reports.lake import matching, unit_file

if TYPE_CHECKING:
    from upath import UPath

Read = TypeVar("Read")

_TRIES = 10
"""Listings of a folder whose files are replaced in the meantime."""

_OPENED: dict[Path | UPath, list[CompactedFile]] = {}
"""The compacted files of each folder as last listed. What is in one of them stays compacted."""


def has_unit(lake: Path | UPath, table: str, experiment: str, arm: str, unit: str) -> bool:
    """Return True if a table contains a unit of work."""
    folder = unit_file(lake, table, experiment, arm, "").parent
    return (
        _find(_OPENED.get(folder, []), unit) is not None
        or unit_file(lake, table, experiment, arm, unit).exists()
        or _find(_open_all(folder), unit) is not None
    )


def read_unit(
    lake: Path | UPath,
    table: str,
    experiment: str,
    arm: str,
    unit: str,
    columns: Sequence[str] | None = None,
) -> pa.Table | None:
    """Return the rows of a unit of work, with these columns or all of them; None without it.

    Raise pyarrow.ArrowException if its file is damaged.
    """
    folder = unit_file(lake, table, experiment, arm, "").parent
    if table not in REWRITTEN and (file := _find(_OPENED.get(folder, []), unit)):
        try:
            return file.read(unit, columns)
        except FileNotFoundError:
            pass  # it was replaced since
    path = unit_file(lake, table, experiment, arm, unit)
    try:
        return read_table(pa.BufferReader(path.read_bytes()), columns)
    except FileNotFoundError:
        return _repeat(lambda: _read_compacted(folder, unit, columns))


def has_result(
    lake: Path | UPath, table: str, experiment: str, arm: str, result: Path | UPath
) -> bool:
    """Return True if there is a cached result, as a file or of a compacted unit of a table."""
    folder = unit_file(lake, table, experiment, arm, "").parent
    return (
        _find_result(_OPENED.get(folder, []), result.name) is not None
        or result.exists()
        or _find_result(_open_all(folder), result.name) is not None
    )


def find_result(lake: Path | UPath, table: str, experiment: str, arm: str, name: str) -> str | None:
    """Return the compacted unit of a table whose cached result had a name, or None."""
    return _find_result(_open_all(unit_file(lake, table, experiment, arm, "").parent), name)


def find_compacted(
    lake: Path | UPath, table: str, experiment: str, arm: str, pattern: str
) -> Iterator[tuple[CompactedFile, tuple[str, str, str]]]:
    """Yield the compacted files of units that match shell patterns, with experiment, arm and unit.

    List the units with single files before: the single files count.
    """
    if table not in PER_CELL:
        return
    files = f"experiment={experiment}/arm={arm}/{FOLDER}/*.parquet"
    for file in _repeat(lambda: list(map(open_compacted, matching(lake / table, files)))):
        of_arm, of_experiment = file.path.parents[1].name, file.path.parents[2].name
        where = of_experiment.removeprefix("experiment="), of_arm.removeprefix("arm=")
        for unit in file.units:
            if fnmatchcase(unit, pattern):
                yield file, (*where, unit)


def _read_compacted(
    folder: Path | UPath, unit: str, columns: Sequence[str] | None
) -> pa.Table | None:
    file = _find(_open_all(folder), unit)
    return None if file is None else file.read(unit, columns)


def _find(files: Sequence[CompactedFile], unit: str) -> CompactedFile | None:
    return next((file for file in files if unit in file.units), None)


def _find_result(files: Sequence[CompactedFile], name: str) -> str | None:
    units = (file.units_by_result.get(name) for file in files)
    return next((unit for unit in units if unit), None)


def _open_all(folder: Path | UPath) -> list[CompactedFile]:
    """List the compacted files of an arm and remember them."""
    files = _repeat(lambda: list(map(open_compacted, matching(folder / FOLDER, "*.parquet"))))
    _OPENED[folder] = files
    return files


def _repeat(read: Callable[[], Read]) -> Read:
    """List and read files, again if one of them was replaced in between."""
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            return read()
    return read()
