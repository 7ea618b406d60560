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
from agent.stores import (
    is_away,
    make_private,
    reason,
    refusals,
)
from flows.display.errors import UsageError
from flows.storage.files import (
    Row as Row,
)
from flows.storage.files import (
    create_file,
    decode_rows,
    encode_rows,
    encode_table,
    find_existing,
    remove_file,
    write_file,
)
from reports.columns import SHARED_TABLES, TABLES, LakeTable
from reports.lake import damage, location, matching, unit_file

if TYPE_CHECKING:
    from upath import UPath


DEFAULT = "lake"
VARIABLE = "DURABENCH_LAKE"


@dataclass(frozen=True)
class Lake:
    """A folder, or a prefix on an object store, with one Parquet dataset per table.

    Every reading method raises InfrastructureError if a disk or object-store operation fails.
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
        try:
            probe = find_existing(lake.root) / f".writable-{uuid.uuid4().hex}"
            write_file(probe, b"")
            remove_file(probe)
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
        """Write the rows of one unit of work. Without rows, write no file.

        Raises:
            pyarrow.ArrowInvalid: a row does not fit the declared columns.
            InfrastructureError: a disk or object-store operation failed; no partial file remains.
        """
        content = list(rows)
        if not content:
            return None
        final = unit_file(self.root, table, experiment, arm, unit)
        self._put(final, encode_rows(TABLES[table], content))
        return final

    def write_columns(
        self,
        table: str,
        experiment: str,
        arm: str,
        unit: str,
        shared: Row,
        columns: Mapping[str, Sequence[Any]],
    ) -> None:
        """Write one unit of work given by column. All rows have the values of `shared`.

        Raises:
            pyarrow.ArrowInvalid: a value does not fit its declared column.
            InfrastructureError: a disk or object-store operation failed; no partial file remains.
        """
        rows = len(next(iter(columns.values())))
        if not rows:
            return
        arrays = {
            field.name: pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.repeat(pa.scalar(shared[field.name], field.type), rows)
            for field in TABLES[table].schema
        }
        arrow = pa.table(arrays, schema=TABLES[table].schema)
        arrow.validate(full=True)
        self._put(unit_file(self.root, table, experiment, arm, unit), encode_table(arrow))

    def has(self, table: str, experiment: str, arm: str, unit: str) -> bool:
        """Return True if a table contains a unit of work."""
        return self._is_there(unit_file(self.root, table, experiment, arm, unit))

    def remove(self, table: str, experiment: str, arm: str, unit: str) -> None:
        """Remove the rows of one unit of work, if it exists.

        Raises:
            InfrastructureError: a disk or object-store operation failed.
        """
        remove(unit_file(self.root, table, experiment, arm, unit))

    def has_result(self, name: str) -> bool:
        """Return True if Prefect has a cached result under that name."""
        return self._is_there(self.results / name)

    def result(self, name: str) -> Any:
        """Return the JSON value of Prefect's cached result under that name; None without one."""
        with self.reading():
            try:
                stored = json.loads((self.results / name).read_bytes())
                return json.loads(stored["result"])
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                return None

    def write_result(self, name: str, value: Any) -> None:
        """Store a JSON value under that name as Prefect stores results, without loading Prefect.

        Raises:
            InfrastructureError: a disk or object-store operation failed.
        """
        metadata = {
            "storage_key": str(self.results / name),
            "expiration": None,
            "serializer": {"type": "json"},
            "prefect_version": version("prefect"),
            "storage_block_id": None,
        }
        stored = {"metadata": metadata, "result": json.dumps(value)}
        self._put(self.results / name, json.dumps(stored).encode())

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
        return self._rows(
            TABLES[table], unit_file(self.root, table, experiment, arm, unit), columns
        )

    def write_shared(self, table: str, unit: str, row: Row) -> None:
        """Write the row of one unit of work that belongs to no experiment.

        Raises:
            pyarrow.ArrowInvalid, InfrastructureError: see `write`.
        """
        path = self.root / table / f"{unit}.parquet"
        self._put(path, encode_rows(SHARED_TABLES[table], [row]))

    def read_shared(
        self, table: str, unit: str, columns: Sequence[str] | None = None
    ) -> Row | None:
        """Return the row of one unit of work that belongs to no experiment, with these columns or
        all of them; None if it is missing."""
        path = self.root / table / f"{unit}.parquet"
        rows = self._rows(SHARED_TABLES[table], path, columns)
        return rows[0] if rows else None

    def all_shared(self, table: str) -> list[Row]:
        """Return every row of a table that belongs to no experiment."""
        return self._all_rows(table, "*.parquet")

    def find(self, table: str, unit: str, experiment: str = "*") -> list[Row]:
        """Return the rows of a unit of work in any arm and, by default, any experiment."""
        return self._all_rows(table, f"experiment={experiment}/arm=*/{unit}.parquet")

    def rows(self, table: str, experiment: str) -> list[Row]:
        """Return every row of an experiment in a table."""
        return self._all_rows(table, f"experiment={experiment}/arm=*/*.parquet")

    def latest_unit(self, table: str, experiment: str) -> str:
        """Return the last unit by name, or ''. It is the newest if names begin with a time."""
        files = self._files(table, f"experiment={experiment}/arm=*/*.parquet")
        return max((path.stem for path in files), default="")

    def units(self, table: str, pattern: str, experiment: str = "*", arm: str = "*") -> list[str]:
        """Return the names of units that match a shell pattern, sorted."""
        if "/" in pattern:
            return []
        files = self._files(table, f"experiment={experiment}/arm={arm}/{pattern}.parquet")
        return sorted(path.stem for path in files)

    def places(self, table: str, pattern: str) -> list[tuple[str, str, str]]:
        """Return experiment, arm and name of the units that match a shell pattern."""
        if "/" in pattern:
            return []
        files = self._files(table, f"experiment=*/arm=*/{pattern}.parquet")
        return [
            (
                path.parent.parent.name.removeprefix("experiment="),
                path.parent.name.removeprefix("arm="),
                path.stem,
            )
            for path in files
        ]

    def experiments(self) -> list[str]:
        """Return the names of the experiments declared in this lake."""
        files = self._files("experiments", "experiment=*/arm=*/*.parquet")
        return sorted({path.parent.parent.name.removeprefix("experiment=") for path in files})

    @property
    def results(self) -> "Path | UPath":
        """Location of Prefect's task results, beside the rows they refer to."""
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
        """Create the folder of the lake, for its owner only. One that exists keeps its mode.

        Raises:
            InfrastructureError: the disk rejects it.
        """
        if isinstance(self.root, Path):
            try:
                make_private(self.root)
            except OSError as error:
                raise _unwritten(self.root, error) from error

    def _put(self, path: "Path | UPath", content: bytes) -> None:
        self.make_folder()
        write_whole(path, content)

    def _is_there(self, path: "Path | UPath") -> bool:
        with self.reading():
            return path.exists()

    def _rows(
        self, table: LakeTable, path: "Path | UPath", columns: Sequence[str] | None = None
    ) -> list[Row]:
        with self.reading():
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                return []
        return _decode(path, table, content, columns)

    def _all_rows(self, table: str, pattern: str) -> list[Row]:
        files, declared = self._files(table, pattern), (TABLES | SHARED_TABLES)[table]
        with self.reading():
            contents = self._contents(files)
        return [
            row
            for path, content in zip(files, contents, strict=True)
            for row in _decode(path, declared, content)
        ]

    def _files(self, table: str, pattern: str) -> "Sequence[Path | UPath]":
        with self.reading():
            return matching(self.root / table, pattern)

    def _contents(self, files: "Sequence[Path | UPath]") -> list[bytes]:
        if isinstance(self.root, Path):
            return [path.read_bytes() for path in files]
        names = [path.path for path in files if not isinstance(path, Path)]
        contents: list[bytes] = self.root.fs.cat_ranges(
            names, None, None, on_error="raise", max_concurrency=1
        )
        return contents


def _decode(
    path: "Path | UPath", table: LakeTable, content: bytes, columns: Sequence[str] | None = None
) -> list[Row]:
    try:
        return decode_rows(table, content, columns)
    except (pa.ArrowException, OSError) as error:
        raise InfrastructureError(damage(path, error)) from error


def write_whole(path: "Path | UPath", content: bytes) -> None:
    """Write a file that appears whole or not at all.

    Raises:
        InfrastructureError: a disk or object-store operation failed; no partial file remains.
    """
    try:
        write_file(path, content)
    except refusals() as error:
        raise _unwritten(path, error) from error


def _unwritten(path: "Path | UPath", error: Exception) -> InfrastructureError:
    return InfrastructureError(
        f"{path} cannot be written: {reason(error)}; free some space or repair the disk or the "
        "store, and run again"
    )


def create_whole(path: "Path | UPath", content: bytes) -> bool:
    """Create a file in its own folder, whole, unless it exists. Return True if it was written.

    Of several concurrent writers, exactly one succeeds.

    Raises:
        InfrastructureError: a disk or object-store operation failed; nothing remains.
    """
    try:
        return create_file(path, content)
    except refusals() as error:
        raise InfrastructureError(f"{path} cannot be written: {reason(error)}") from error


def remove(path: "Path | UPath") -> None:
    """Remove a file if it exists.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    try:
        remove_file(path)
    except refusals() as error:
        raise InfrastructureError(f"{path} cannot be removed: {reason(error)}") from error


@cache
def versions() -> dict[str, str]:
    """Return the versions of the software that determines a result."""
    packages = ["durabench", "litellm", "mini-swe-agent", "swebench"]
    return {package: version(package) for package in packages}
