"""The lake: the results of runs, one immutable Parquet file per finished unit of work.

It is a folder, or a prefix on an object store. Layout and columns are declared in
`reports.columns`. A file appears whole or not at all: it is written under a temporary name and
renamed, or uploaded in one request. The row in `attempts` is written after all other rows of its
attempt, so an attempt listed there is complete.
"""

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from agent.errors import InfrastructureError
from agent.stores import is_away, make_private, reason, refusals
from flows.display.errors import UsageError
from flows.storage.files import Row as Row  # most users of a lake name its rows
from flows.storage.files import add_copy_columns, decode_rows, encode_rows, encode_table
from flows.storage.whole_files import delete, put, read_all, remove, write_whole, writing
from reports import units
from reports.columns import SHARED_TABLES, TABLES, LakeTable
from reports.compacted import read_table
from reports.lake import damage, location, matching, unit_file

if TYPE_CHECKING:
    from upath import UPath


DEFAULT = "lake"
VARIABLE = "DURABENCH_LAKE"

NAME = r"^[a-z0-9][a-z0-9._-]*$"
"""Pattern of names that are also folders and container labels."""


@dataclass(frozen=True)
class Lake:
    """A folder, or a prefix on an object store, with one Parquet dataset per table.

    Every method that reads or writes raises InfrastructureError if the disk or the object store
    fails, and every method that writes rows pyarrow.ArrowInvalid if one does not fit the declared
    columns.
    """

    root: "Path | UPath"

    @classmethod
    def open(cls, path: "str | Path | UPath | None" = None) -> "Lake":
        """Return the lake at `path`, at `DURABENCH_LAKE`, or in `./lake`, which can be written.

        Nothing is created: the first write makes the folder.

        Raises:
            UsageError: the lake is not writable.
            ReportError: the location is not valid for a lake.
            InfrastructureError: the object store does not answer.
        """
        lake = cls.existing(path)
        folder = lake.root
        if isinstance(folder, Path):
            above = (folder, *folder.parents)
            folder = next(path for path in above if path.exists() or path.is_symlink())
        try:
            probe = folder / f".writable-{uuid.uuid4().hex}"
            put(probe, b"")
            delete(probe)
        except refusals() as error:
            if is_away(error):
                raise InfrastructureError(
                    f"the lake {lake.root} is out of reach: {reason(error)}; run again when its "
                    "object store answers"
                ) from error
            raise UsageError(
                f"cannot write to the lake {lake.root}: {reason(error)}; "
                f"choose another with --lake or {VARIABLE}"
            ) from None
        return lake

    @classmethod
    def existing(cls, path: "str | Path | UPath | None" = None) -> "Lake":
        """Return a lake for reading. It need not exist or be writable.

        Raises:
            ReportError: the location is not valid for a lake.
        """
        return cls(location(path or os.environ.get(VARIABLE) or DEFAULT))

    def write(
        self, table: str, experiment: str, arm: str, unit: str, rows: Iterable[Row]
    ) -> "Path | UPath | None":
        """Write the rows of one unit of work. Without rows, write no file."""
        content = list(rows)
        if not content:
            return None
        path = unit_file(self.root, table, experiment, arm, unit)
        self._write(path, encode_rows(TABLES[table], content))
        return path

    def write_columns(
        self,
        table: str,
        experiment: str,
        arm: str,
        unit: str,
        shared: Row,
        columns: Mapping[str, Sequence[Any]],
    ) -> None:
        """Write one unit of work given by column. All rows have the values of `shared`."""
        rows = len(next(iter(columns.values())))
        if not rows:
            return
        schema = TABLES[table].schema
        arrays = {
            field.name: pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.repeat(pa.scalar(shared[field.name], field.type), rows)
            for field in schema
        }
        arrow = pa.table(arrays, schema=schema)
        arrow.validate(full=True)
        self._write(unit_file(self.root, table, experiment, arm, unit), encode_table(arrow))

    def has(self, table: str, experiment: str, arm: str, unit: str) -> bool:
        """Return True if a table contains a unit of work."""
        with self.reading():
            return units.has_unit(self.root, table, experiment, arm, unit)

    def remove(self, table: str, experiment: str, arm: str, unit: str) -> None:
        """Remove the rows of one unit of work, if it exists."""
        remove(unit_file(self.root, table, experiment, arm, unit))

    def has_result(self, name: str) -> bool:
        """Return True if Prefect has a cached result under that name."""
        with self.reading():
            return (self.results / name).exists()

    def has_result_of(self, table: str, experiment: str, arm: str, name: str) -> bool:
        """Return True if a unit of a table has a cached result under that name, in a file or
        compacted."""
        with self._decoding(self.root / table):
            return units.has_result(self.root, table, experiment, arm, self.results / name)

    def find_compacted(self, table: str, experiment: str, arm: str, result: str) -> str | None:
        """Return the compacted unit whose cached result has that name, or None."""
        with self._decoding(self.root / table):
            return units.find_result(self.root, table, experiment, arm, result)

    def result(self, name: str) -> Any:
        """Return the JSON value of Prefect's cached result under that name; None without one."""
        with self.reading():
            try:
                stored = json.loads((self.results / name).read_bytes())
                return json.loads(stored["result"])
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                return None

    def write_result(self, name: str, value: Any) -> None:
        """Store a JSON value under that name as Prefect stores results, without loading Prefect."""
        metadata = {
            "storage_key": str(self.results / name),
            "expiration": None,
            "serializer": {"type": "json"},
            "prefect_version": version("prefect"),
            "storage_block_id": None,
        }
        stored = {"metadata": metadata, "result": json.dumps(value)}
        self._write(self.results / name, json.dumps(stored).encode())

    def read(
        self,
        table: str,
        experiment: str,
        arm: str,
        unit: str,
        columns: Sequence[str] | None = None,
    ) -> list[Row]:
        """Return the rows of one unit of work, with these columns or all of them.

        Return an empty list if it does not exist.
        """
        path, declared = unit_file(self.root, table, experiment, arm, unit), TABLES[table]
        with self._decoding(path):
            wanted = add_copy_columns(declared, columns)
            rows = units.read_unit(self.root, table, experiment, arm, unit, wanted)
            return [] if rows is None else decode_rows(declared, rows)

    def write_shared(self, table: str, unit: str, row: Row) -> None:
        """Write the row of one unit of work that belongs to no experiment."""
        path = self.root / table / f"{unit}.parquet"
        self._write(path, encode_rows(SHARED_TABLES[table], [row]))

    def read_shared(
        self, table: str, unit: str, columns: Sequence[str] | None = None
    ) -> Row | None:
        """Return the row of one unit of work that belongs to no experiment, with these columns or
        all of them; None if it is missing."""
        path, declared = self.root / table / f"{unit}.parquet", SHARED_TABLES[table]
        with self._decoding(path):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                return None
            rows = read_table(pa.BufferReader(content), add_copy_columns(declared, columns))
            return next(iter(decode_rows(declared, rows)), None)

    def all_shared(self, table: str) -> list[Row]:
        """Return every row of a table that belongs to no experiment."""
        files = self._read_files(SHARED_TABLES[table], self._list(table, "*.parquet"))
        return [row for rows in files for row in rows]

    def find(self, table: str, unit: str, experiment: str = "*") -> list[Row]:
        """Return the rows of a unit of work in any arm and, by default, any experiment."""
        return self._read_units(table, unit, experiment)

    def rows(self, table: str, experiment: str) -> list[Row]:
        """Return every row of an experiment in a table."""
        return self._read_units(table, "*", experiment)

    def latest_unit(self, table: str, experiment: str) -> str:
        """Return the last unit by name, or ''. It is the newest if names start with a time."""
        return max(self.units(table, "*", experiment), default="")

    def units(self, table: str, pattern: str, experiment: str = "*", arm: str = "*") -> list[str]:
        """Return the names of units that match a shell pattern, sorted."""
        return sorted(unit for _, _, unit in self.places(table, pattern, experiment, arm))

    def places(
        self, table: str, pattern: str, experiment: str = "*", arm: str = "*"
    ) -> list[tuple[str, str, str]]:
        """Return experiment, arm and name of the units that match a shell pattern."""
        if "/" in pattern:
            return []
        where = (self.root, table, experiment, arm, pattern)
        paths = self._list(table, f"experiment={experiment}/arm={arm}/{pattern}.parquet")
        with self._decoding(self.root / table):
            compacted = {place for _, place in units.find_compacted(*where)}
        return sorted({*map(_place, paths), *compacted})

    def experiments(self) -> list[str]:
        """Return the names of the experiments declared in this lake."""
        return sorted({experiment for experiment, _, _ in self.places("experiments", "*")})

    @property
    def results(self) -> "Path | UPath":
        """Location of Prefect's task results, alongside the rows they refer to."""
        return self.root / ".results"

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Convert errors of reads by path during the block.

        Raises:
            InfrastructureError: a disk or object-store operation failed.
        """
        try:
            yield
        except refusals() as error:
            raise InfrastructureError(
                f"the lake {self.root} cannot be read: {reason(error)}; fix that and run again"
            ) from error

    @contextmanager
    def _decoding(self, path: "Path | UPath") -> Iterator[None]:
        """Convert errors of reads and of the content of a file during the block."""
        with self.reading():
            try:
                yield
            except pa.ArrowException as error:
                raise InfrastructureError(damage(path, error)) from error

    def make_folder(self) -> None:
        """Create the folder of the lake, for its owner only. One that exists keeps its mode."""
        if isinstance(self.root, Path):
            with writing(self.root):
                make_private(self.root)

    def _write(self, path: "Path | UPath", content: bytes) -> None:
        self.make_folder()
        write_whole(path, content)

    def _read_units(self, table: str, pattern: str, experiment: str) -> list[Row]:
        """Return the rows of units that match a shell pattern, in the order of their places."""
        declared = TABLES[table]
        paths = self._list(table, f"experiment={experiment}/arm=*/{pattern}.parquet")
        rows = dict(zip(map(_place, paths), self._read_files(declared, paths), strict=True))
        with self._decoding(self.root / table):
            for file, place in units.find_compacted(self.root, table, experiment, "*", pattern):
                if place not in rows:
                    rows[place] = decode_rows(declared, file.read(place[2]))
        return [row for place in sorted(rows) for row in rows[place]]

    def _read_files(self, table: LakeTable, paths: "Sequence[Path | UPath]") -> Iterator[list[Row]]:
        with self.reading():
            contents = read_all(paths)
        for path, content in zip(paths, contents, strict=True):
            with self._decoding(path):
                rows = decode_rows(table, read_table(pa.BufferReader(content)))
            yield rows

    def _list(self, table: str, pattern: str) -> "Sequence[Path | UPath]":
        with self.reading():
            return matching(self.root / table, pattern)


def _place(path: "Path | UPath") -> tuple[str, str, str]:
    """Return experiment, arm and unit of a file."""
    arm, experiment = path.parent.name, path.parent.parent.name
    return experiment.removeprefix("experiment="), arm.removeprefix("arm="), path.stem


@cache
def versions() -> dict[str, str]:
    """Return the versions of the software that determines a result."""
    packages = ["durabench", "litellm", "mini-swe-agent", "swebench"]
    return {package: version(package) for package in packages}
