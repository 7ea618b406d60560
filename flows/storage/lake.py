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
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from agent.errors import InfrastructureError
from agent.stores import (
    create_object,
    is_away,
    make_private,
    put_object,
    reason,
    refusals,
    replace_file,
)
from flows.display.errors import UsageError
from flows.storage.files import Row as Row  # most users of a lake name its rows
from flows.storage.files import decode_rows, encode_rows, encode_table
from reports.columns import SHARED_TABLES, TABLES, LakeTable
from reports.lake import damage, location, matching, unit_file

if TYPE_CHECKING:
    from upath import UPath


DEFAULT = "lake"
VARIABLE = "DURABENCH_LAKE"


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
            _put(probe, b"")
            _remove(probe)
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
            return unit_file(self.root, table, experiment, arm, unit).exists()

    def remove(self, table: str, experiment: str, arm: str, unit: str) -> None:
        """Remove the rows of one unit of work, if it exists."""
        remove(unit_file(self.root, table, experiment, arm, unit))

    def has_result(self, name: str) -> bool:
        """Return True if Prefect has a cached result under that name."""
        with self.reading():
            return (self.results / name).exists()

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
        path = unit_file(self.root, table, experiment, arm, unit)
        return self._read(TABLES[table], path, columns)

    def write_shared(self, table: str, unit: str, row: Row) -> None:
        """Write the row of one unit of work that belongs to no experiment."""
        path = self.root / table / f"{unit}.parquet"
        self._write(path, encode_rows(SHARED_TABLES[table], [row]))

    def read_shared(
        self, table: str, unit: str, columns: Sequence[str] | None = None
    ) -> Row | None:
        """Return the row of one unit of work that belongs to no experiment, with these columns or
        all of them; None if it is missing."""
        path = self.root / table / f"{unit}.parquet"
        return next(iter(self._read(SHARED_TABLES[table], path, columns)), None)

    def all_shared(self, table: str) -> list[Row]:
        """Return every row of a table that belongs to no experiment."""
        return self._read_all(table, "*.parquet")

    def find(self, table: str, unit: str, experiment: str = "*") -> list[Row]:
        """Return the rows of a unit of work in any arm and, by default, any experiment."""
        return self._read_all(table, f"experiment={experiment}/arm=*/{unit}.parquet")

    def rows(self, table: str, experiment: str) -> list[Row]:
        """Return every row of an experiment in a table."""
        return self._read_all(table, f"experiment={experiment}/arm=*/*.parquet")

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
        return [
            (
                path.parent.parent.name.removeprefix("experiment="),
                path.parent.name.removeprefix("arm="),
                path.stem,
            )
            for path in self._list(table, f"experiment={experiment}/arm={arm}/{pattern}.parquet")
        ]

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

    def make_folder(self) -> None:
        """Create the folder of the lake, for its owner only. One that exists keeps its mode."""
        if isinstance(self.root, Path):
            with _writing(self.root):
                make_private(self.root)

    def _write(self, path: "Path | UPath", content: bytes) -> None:
        self.make_folder()
        write_whole(path, content)

    def _read(
        self, table: LakeTable, path: "Path | UPath", columns: Sequence[str] | None = None
    ) -> list[Row]:
        with self.reading():
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                return []
        return _decode(path, table, content, columns)

    def _read_all(self, table: str, pattern: str) -> list[Row]:
        paths, declared = self._list(table, pattern), (TABLES | SHARED_TABLES)[table]
        with self.reading():
            if isinstance(self.root, Path):
                contents = [path.read_bytes() for path in paths]
            else:
                names = [path.path for path in paths if not isinstance(path, Path)]
                options = {"on_error": "raise", "max_concurrency": 1}
                contents = self.root.fs.cat_ranges(names, None, None, **options)
        return [
            row
            for path, content in zip(paths, contents, strict=True)
            for row in _decode(path, declared, content)
        ]

    def _list(self, table: str, pattern: str) -> "Sequence[Path | UPath]":
        with self.reading():
            return matching(self.root / table, pattern)


def _decode(
    path: "Path | UPath", table: LakeTable, content: bytes, columns: Sequence[str] | None = None
) -> list[Row]:
    try:
        return decode_rows(table, content, columns)
    except (pa.ArrowException, OSError) as error:
        raise InfrastructureError(damage(path, error)) from error


def _put(path: "Path | UPath", content: bytes) -> None:
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content, durable=False)
    else:
        put_object(path, content)


def _remove(path: "Path | UPath") -> None:
    if isinstance(path, Path):
        path.unlink(missing_ok=True)
    else:
        path.fs.rm_file(path.path)  # `unlink` would treat the name as a pattern


@contextmanager
def _writing(path: "Path | UPath") -> Iterator[None]:
    """Convert errors of writing a file during the block."""
    try:
        yield
    except refusals() as error:
        raise InfrastructureError(
            f"{path} cannot be written: {reason(error)}; free some space or repair the disk or the "
            "store, and run again"
        ) from error


def write_whole(path: "Path | UPath", content: bytes) -> None:
    """Write a file that appears whole or not at all.

    Raises:
        InfrastructureError: a disk or object-store operation failed; no partial file remains.
    """
    with _writing(path):
        _put(path, content)


def create_whole(path: "Path | UPath", content: bytes) -> None:
    """Create a file in its own folder, whole, unless it exists.

    Of several concurrent writers, exactly one succeeds.

    Raises:
        InfrastructureError: a disk or object-store operation failed; nothing remains.
    """
    with _writing(path):
        if not isinstance(path, Path):
            create_object(path, content)
            return
        if path.exists():
            return
        folder = path.parent
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Not every disk supports links, but on all disks a folder can only replace an empty folder.
        with TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}.") as temporary:
            new = Path(temporary) / folder.name
            new.mkdir()
            with (new / path.name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            try:
                new.rename(folder)
            except OSError:
                if not path.exists():
                    raise


def remove(path: "Path | UPath") -> None:
    """Remove a file if it exists.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    try:
        _remove(path)
    except refusals() as error:
        raise InfrastructureError(f"{path} cannot be removed: {reason(error)}") from error


@cache
def versions() -> dict[str, str]:
    """Return the versions of the software that determines a result."""
    packages = ["durabench", "litellm", "mini-swe-agent", "swebench"]
    return {package: version(package) for package in packages}
