"""Compaction: few files with the rows of many ended attempts, in place of seven for each attempt.

For each arm and table, new compacted files are written first. Then the older compacted files with
the same units are removed, then the files of single units, and last the cached results, whose
names are in the compacted files. So each row is in a file at any moment. If a compaction is killed,
the next one finishes its work. Files are removed only while no attempt can be acquired, so that no
unit is lost that was written again in the meantime.
"""

import glob
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from agent.journal import Holding, Journal
from flows.experiments.cells import derive_audit_key
from flows.storage.files import encode_table
from flows.storage.lake import Lake
from flows.storage.whole_files import read_all, remove_all, write_whole
from reports.compacted import FOLDER, PER_CELL, CompactedFile, open_compacted, pack, read_table
from reports.lake import matching

if TYPE_CHECKING:
    from upath import UPath

Item = TypeVar("Item")

UNITS = 1_000
"""Units in a compacted file, at most."""

_BYTES = 8 * 2**20
"""A compacted file takes no further unit when its rows need that much memory."""

_BATCH = 500
"""Files removed at a time while no attempt can start: seconds on the slowest storage."""

_NOT_FINAL = {
    "attempts": ("infrastructure", "budget_stop", "interrupted", "waiting", "refused"),
    "evaluations": ("infrastructure",),
}
"""Outcomes with which a later run replaces the unit."""


@dataclass(frozen=True)
class ArmFiles:
    """The files of one table and arm that a compaction replaces."""

    folder: "Path | UPath"
    units: "Mapping[str, Path | UPath]"
    """Files of single units whose content is final, by unit."""
    compacted: tuple[CompactedFile, ...]
    """Compacted files that have one of these units, or a unit of another compacted file."""

    @property
    def is_of_evaluations(self) -> bool:
        return self.folder.parent.parent.name == "evaluations"

    def key(self, unit: str) -> str:
        """Return the part of a unit's name that the names of its cached results start with."""
        return unit.rpartition("-")[2] if self.is_of_evaluations else unit


def find_ended(holdings: Sequence[Holding], age_s: float) -> dict[str, set[str]]:
    """Return the attempts that ended long ago by experiment. Experiments that run have none.

    An attempt without steps is as old as its experiment.
    """
    running = {holding.attempt.experiment for holding in holdings if holding.is_held}
    idle_s: dict[str, float] = defaultdict(lambda: math.inf)
    for holding in holdings:
        if holding.idle_s is not None:
            name = holding.attempt.experiment
            idle_s[name] = min(idle_s[name], holding.idle_s)
    ended: dict[str, set[str]] = defaultdict(set)
    for holding in holdings:
        name = holding.attempt.experiment
        own_s = idle_s[name] if holding.idle_s is None else holding.idle_s
        if holding.has_ended and own_s >= age_s and name not in running:
            ended[name].add(holding.attempt.attempt_id)
    return ended


class Compaction:
    """One compaction of the units of some attempts. Reading it changes nothing."""

    def __init__(self, lake: Lake, attempts: Mapping[str, set[str]]) -> None:
        """`attempts` are the ended ones by experiment."""
        self._lake = lake
        with lake.reading():
            self._results = _list_results(lake)
            self.arms = [
                arm
                for experiment, ids in attempts.items()
                for arm in _list_arms(lake, experiment, ids)
            ]
            self._keys = self._list_loose_keys()
        self.written = 0
        """Number of files that `run` wrote."""

    def list_results(self) -> "list[Path | UPath]":
        """Return the cached results that no file of a single unit needs and a compacted one has."""
        if not self._results:
            return []
        compacted = {
            name
            for table in ("attempts", "evaluations")
            for path in matching(self._lake.root / table, f"experiment=*/arm=*/{FOLDER}/*.parquet")
            for name in open_compacted(path).units_by_result
        }
        for arm in self.arms:
            compacted.update(name for unit in arm.units for name in self._name_results(arm, unit))
        return [
            self._lake.results / name
            for key, names in self._results.items()
            for name in names
            if key not in self._keys and name in compacted
        ]

    def count_files(self) -> int:
        """Return the number of files that `run` replaces."""
        return sum(len(arm.units) for arm in self.arms) + len(self.list_results())

    def count_compacted(self) -> int:
        """Return about the number of files that `run` writes."""
        return sum(-(-len(arm.units) // UNITS) for arm in self.arms)

    def run(self, journal: Journal, turns: int) -> bool:
        """Compact. Return False if another compaction, or an attempt that was acquired since
        `turns` was counted, has ended it.

        Raises:
            InfrastructureError: a disk or object-store operation failed. No row is lost.
        """
        with self._lake.reading():
            try:
                return self._run(journal, turns)
            except FileNotFoundError:  # another compaction has removed it
                return False

    def _run(self, journal: Journal, turns: int) -> bool:
        for arm in self.arms:
            new = set(self._write(arm))
            self.written += len(new)
            old = [file.path for file in arm.compacted if file.path not in new]
            for paths in (old, list(arm.units.values())):
                if not _remove(paths, journal, turns):
                    return False
        return _remove(self.list_results(), journal, turns)

    def _write(self, arm: ArmFiles) -> "Iterator[Path | UPath]":
        """Write the units of an arm to compacted files. Yield their paths."""
        names = {*arm.units, *(unit for file in arm.compacted for unit in file.units)}
        for batch in _batch(sorted(names), UNITS):
            for units in _split(self._read(arm, batch)):
                content = encode_table(pack(units))
                path = arm.folder / FOLDER / f"{sha256(content).hexdigest()[:32]}.parquet"
                write_whole(path, content)
                yield path

    def _read(self, arm: ArmFiles, units: Sequence[str]) -> "list[_Unit]":
        """Return the rows of units, from compacted files where a unit has no single file."""
        loose = [unit for unit in units if unit in arm.units]
        contents = dict(zip(loose, read_all([arm.units[unit] for unit in loose]), strict=True))
        rows = []
        for unit in units:
            files = [file for file in arm.compacted if unit in file.units]
            names = {name for file in files for name in file.units[unit].results}
            names.update(self._name_results(arm, unit))
            if unit in contents:
                table = read_table(pa.BufferReader(contents[unit]))
            else:
                table = files[0].read(unit)
            rows.append((unit, table.replace_schema_metadata(None), tuple(sorted(names))))
        return rows

    def _name_results(self, arm: ArmFiles, unit: str) -> Sequence[str]:
        if arm.folder.parent.parent.name not in _NOT_FINAL:
            return ()
        return self._results.get(arm.key(unit), ())

    def _list_loose_keys(self) -> set[str]:
        """Return the keys of units whose single files stay, in all experiments."""
        replaced = {path for arm in self.arms for path in arm.units.values()}
        return {
            path.stem.rpartition("-")[2]
            for table in _NOT_FINAL
            for path in matching(self._lake.root / table, "experiment=*/arm=*/*.parquet")
            if path not in replaced
        }


_Unit = tuple[str, pa.Table, tuple[str, ...]]


def _split(units: list[_Unit]) -> Iterator[list[_Unit]]:
    """Yield the units of each file: of one schema, and of limited size."""
    for _, same in groupby(sorted(units, key=_schema), _schema):
        file: list[_Unit] = []
        for unit in same:
            if sum(rows.nbytes for _, rows, _ in file) > _BYTES:
                yield file
                file = []
            file.append(unit)
        yield file


def _schema(unit: _Unit) -> str:
    return str(unit[1].schema)


def _list_arms(lake: Lake, experiment: str, ids: set[str]) -> Iterator[ArmFiles]:
    """Yield what a compaction replaces. Files of single units are listed before compacted ones."""
    name = glob.escape(experiment)
    unfinished: set[str] = set()
    for table in reversed(PER_CELL):  # `attempts` first
        loose: dict[Path | UPath, dict[str, Path | UPath]] = defaultdict(dict)
        for path in matching(lake.root / table, f"experiment={name}/arm=*/*.parquet"):
            attempt = path.stem.rpartition("-")[0] or path.stem
            if attempt in ids and attempt not in unfinished:
                loose[path.parent][path.stem] = path
        compacted: dict[Path | UPath, list[CompactedFile]] = defaultdict(list)
        for path in matching(lake.root / table, f"experiment={name}/arm=*/{FOLDER}/*.parquet"):
            compacted[path.parent.parent].append(open_compacted(path))
        for folder in sorted({*loose, *compacted}):
            units = loose[folder]
            for unit in _find_unfinished(table, units):
                del units[unit]
                if table == "attempts":
                    unfinished.add(unit)
            files = _find_overlaps(units.keys(), compacted[folder])
            if units or files:
                yield ArmFiles(folder, units, files)


def _find_unfinished(table: str, units: "Mapping[str, Path | UPath]") -> list[str]:
    """Return the units that a later run replaces."""
    if table not in _NOT_FINAL:
        return []
    contents = read_all(list(units.values()))
    return [
        unit
        for unit, content in zip(units, contents, strict=True)
        if read_table(pa.BufferReader(content), ["outcome"])["outcome"][0].as_py()
        in _NOT_FINAL[table]
    ]


def _find_overlaps(units: Set[str], files: Sequence[CompactedFile]) -> tuple[CompactedFile, ...]:
    """Return the files with one of these units or a unit of another file."""
    times = Counter(unit for file in files for unit in file.units) + Counter(units)
    return tuple(file for file in files if any(times[unit] > 1 for unit in file.units))


def _list_results(lake: Lake) -> Mapping[str, Sequence[str]]:
    """Return the names of cached results by the key of the units that they belong to."""
    names = {path.name for path in matching(lake.results, "*")}
    results: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        task, _, key = name.partition("-")
        if task == "attempt":
            results[key[:32]].append(name)
        elif task == "evaluation":
            audit = f"audit-{derive_audit_key(key)}"  # removed first, since its name is derived
            results[key[:12]] += [audit, name] if audit in names else [name]
    return results


def _remove(paths: "Sequence[Path | UPath]", journal: Journal, turns: int) -> bool:
    """Remove files while no attempt can be acquired. Return False if one was, which ends it."""
    return all(
        journal.retention.run_undisturbed(turns, partial(remove_all, batch))
        for batch in _batch(paths, _BATCH)
    )


def _batch(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))
