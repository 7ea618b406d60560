"""The lake: what a run leaves behind, one immutable Parquet file per finished unit of work.

Layout and columns are declared in `reports.columns`. A file appears whole or not at all: it
is written under a temporary name and renamed. The row in `attempts` is written after all
other rows of its attempt, so an attempt that is listed is complete.
"""

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from agent.errors import InfrastructureError
from flows.errors import UsageError
from reports.columns import SHARED_TABLES, TABLES, Table

Row = dict[str, Any]

DEFAULT = "lake"
VARIABLE = "DURABENCH_LAKE"


@dataclass(frozen=True)
class Lake:
    """A local folder with one Parquet dataset per table."""

    root: Path

    @classmethod
    def open(cls, path: str | Path | None = None) -> "Lake":
        """The lake at `path`, or at `DURABENCH_LAKE`, or in `./lake`; created if missing.

        Raises:
            UsageError: it cannot be written to.
        """
        root = _location(path)
        probe = root / f".writable-{uuid.uuid4().hex}"
        try:
            root.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise UsageError(
                f"cannot write to the lake {root}: {error.strerror}; "
                f"choose another with --lake or {VARIABLE}"
            ) from None
        return cls(root)

    @classmethod
    def existing(cls, path: str | Path | None = None) -> "Lake":
        """The lake that a command only reads from; it need not be there or be writable."""
        return cls(_location(path))

    def write(
        self, table: str, experiment: str, arm: str, unit: str, rows: Iterable[Row]
    ) -> Path | None:
        """Write the rows of one unit of work; nothing for no rows.

        Raises:
            pyarrow.ArrowInvalid: a row does not fit the declared columns.
            InfrastructureError: the disk refuses; nothing of the file is left.
        """
        content = list(rows)
        if not content:
            return None
        arrow = _arrow(TABLES[table], content)
        final = self._folder(table, experiment, arm) / f"{unit}.parquet"
        with whole(final) as temporary:
            pq.write_table(arrow, temporary, compression="zstd")
        return final

    def has(self, table: str, experiment: str, arm: str, unit: str) -> bool:
        """Whether a unit of work is in a table."""
        return (self._folder(table, experiment, arm) / f"{unit}.parquet").is_file()

    def read(self, table: str, experiment: str, arm: str, unit: str) -> list[Row]:
        """The rows of one unit of work; none if it is not there."""
        path = self._folder(table, experiment, arm) / f"{unit}.parquet"
        rows: list[Row] = pq.ParquetFile(path).read().to_pylist() if path.is_file() else []
        return rows

    def write_shared(self, table: str, unit: str, row: Row) -> None:
        """Write the row of one unit of work that belongs to no experiment.

        Raises:
            pyarrow.ArrowInvalid, InfrastructureError: as `write`.
        """
        arrow = _arrow(SHARED_TABLES[table], [row])
        with whole(self.root / table / f"{unit}.parquet") as temporary:
            pq.write_table(arrow, temporary, compression="zstd")

    def read_shared(self, table: str, unit: str) -> Row | None:
        """The row of one unit of work that belongs to no experiment; None if it is not there."""
        path = self.root / table / f"{unit}.parquet"
        rows: list[Row] = pq.ParquetFile(path).read().to_pylist() if path.is_file() else []
        return rows[0] if rows else None

    def all_shared(self, table: str) -> list[Row]:
        """Every row of a table that belongs to no experiment."""
        files = sorted((self.root / table).glob("*.parquet"))
        return [row for path in files for row in pq.ParquetFile(path).read().to_pylist()]

    def find(self, table: str, unit: str) -> list[Row]:
        """The rows of a unit of work, whichever experiment and arm it belongs to."""
        return [
            row
            for path in sorted((self.root / table).glob(f"experiment=*/arm=*/{unit}.parquet"))
            for row in pq.ParquetFile(path).read().to_pylist()
        ]

    def latest_unit(self, table: str, experiment: str) -> str:
        """The last unit by name, which is the newest where names begin with a time; or none."""
        folder = self.root / table / f"experiment={experiment}"
        return max((path.stem for path in folder.glob("arm=*/*.parquet")), default="")

    def units(self, table: str, pattern: str, experiment: str = "*", arm: str = "*") -> list[str]:
        """Names of the units that match a shell pattern, sorted."""
        if "/" in pattern:
            return []
        files = (self.root / table).glob(f"experiment={experiment}/arm={arm}/{pattern}.parquet")
        return sorted(path.stem for path in files)

    def experiments(self) -> list[str]:
        """Names of the experiments that were declared here."""
        folders = (self.root / "experiments").glob("experiment=*")
        return sorted(folder.name.removeprefix("experiment=") for folder in folders)

    @property
    def results(self) -> Path:
        """Where Prefect keeps the results of finished tasks: beside what they stand for."""
        return self.root / ".results"

    def _folder(self, table: str, experiment: str, arm: str) -> Path:
        return self.root / table / f"experiment={experiment}" / f"arm={arm}"


@contextmanager
def whole(final: Path) -> Iterator[Path]:
    """A temporary name beside `final`, which becomes it when the block has written it.

    Raises:
        InfrastructureError: the disk refuses; nothing of the file is left.
    """
    temporary = final.with_name(f".{final.stem}.{uuid.uuid4().hex}")
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(final)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise InfrastructureError(
            f"{final} cannot be written: {reason}; free some space or mend the disk, and run again"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _location(path: str | Path | None) -> Path:
    return Path(path or os.environ.get(VARIABLE) or DEFAULT).expanduser().absolute()


def _arrow(table: Table, rows: list[Row]) -> pa.Table:
    schema = table.schema
    unknown = {key for row in rows for key in row} - set(schema.names)
    missing = {name for row in rows for name in schema.names if name not in row}
    if unknown or missing:
        raise ValueError(f"{table.name}: unknown columns {unknown}, missing columns {missing}")
    arrow = pa.Table.from_pylist(rows, schema=schema)
    arrow.validate(full=True)
    return arrow
