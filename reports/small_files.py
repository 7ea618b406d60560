"""Tables of thousands of small files, and the copies that save reading them again.

DuckDB takes half a millisecond of processor time for each file, however few rows it has. So the
rows of a table are also kept in one file, with the name, size and time of the file that each comes
from. A later report takes the rows of unchanged files from there. Nothing depends on a copy: one
that is missing, damaged or of other columns is made again.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reports.sources import SESSION, Source, literal_glob, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

SEVERAL = 500
"""With more files than this, a table is read once, a few files at a time."""

COPIES = ".copies"
"""Folder of a lake for the copies, such as `.copies/attempts/experiment=NAME.parquet`."""

_SMALL_BYTES = 64 * 2**10
"""Mean size of files above which there is no copy: its space is worth more than the time."""

_AT_ONCE = 200
_TABLES_AT_ONCE = 2


def read_tables(
    connection: DuckDBPyConnection,
    sources: Sequence[tuple[Source, Sequence[Path]]],
    copies: Path | None,
) -> None:
    """Create a view of all rows of each source, from its files and from its copy.

    `copies` is the folder for copies; None to keep none.
    """
    if not sources:
        return
    # More threads need twice the processor time for small files. Two tables at a time do not.
    [(threads,)] = connection.execute("select current_setting('threads')").fetchall()
    connection.execute("set threads = 1")
    connection.execute("create schema small_files")
    with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
        tables = [
            _SmallFiles(connection.cursor(), source, files, copies) for source, files in sources
        ]
        for reading in [pool.submit(table.read) for table in tables]:
            reading.result()
    connection.execute(f"set threads = {threads}")


class _SmallFiles:
    """The table of one source. Each row has the number of its file."""

    def __init__(
        self,
        cursor: DuckDBPyConnection,
        source: Source,
        files: Sequence[Path],
        copies: Path | None,
    ) -> None:
        self._cursor, self._source, self._files = cursor, source, files
        self._rows = f"small_files.{source.table.name}"
        self._copies = copies

    def read(self) -> None:
        """Read all rows, and renew the copy if it lacks those of many files."""
        source, name = self._source, self._source.table.name
        stats = [path.stat() for path in self._files]
        with self._cursor as cursor:
            cursor.execute(SESSION)
            cursor.register("listing", _listing(source, self._files, stats))
            cursor.execute("create temp table found as from listing")
            cursor.execute(f"create table {self._rows} as {source.rows(extra=', 0 as number')}")
            copy = self._copy(stats)
            if copy is not None:
                self._insert_copied(copy)
            missing = self._missing()
            for start in range(0, len(missing), _AT_ONCE):
                self._insert([literal_glob(path) for path in missing[start : start + _AT_ONCE]])
            if copy is not None and len(missing) > SEVERAL:
                self._keep(copy)
            cursor.execute(f"create view {name} as from {self._rows} select {source.columns}")

    def _copy(self, stats: Sequence[os.stat_result]) -> Path | None:
        """Return the path of the copy; None if it would save too little for its size."""
        mean_bytes = sum(each.st_size for each in stats) / len(stats)
        if self._copies is None or mean_bytes > _SMALL_BYTES:
            return None
        return self._copies / self._source.table.name / f"{self._source.folder.name}.parquet"

    def _insert_copied(self, copy: Path) -> None:
        """Insert the rows of unchanged files from the copy."""
        import duckdb

        scan = f"read_parquet({quoted(literal_glob(str(copy)))}, hive_partitioning = false)"
        with suppress(duckdb.Error):  # it is missing or damaged
            columns = self._cursor.execute(f"describe from {scan}").fetchall()
            if self._has_declared(columns):
                self._cursor.execute(
                    f"insert into {self._rows} from {scan} join found using (name, stamp) "
                    f"select {self._source.columns}, number"
                )

    def _missing(self) -> list[str]:
        """Return the paths of the files whose rows are not in the table."""
        left = f"from found anti join {self._rows} using (number) select path order by number"
        return [path for (path,) in self._cursor.execute(left).fetchall()]

    def _insert(self, part: Sequence[str]) -> None:
        """Insert the rows of some files.

        DuckDB takes the columns of all files, which it opens for that, or of the first one alone.
        That takes two thirds of the time, and fails if another one lacks a column.
        """
        import duckdb

        first = self._cursor.execute(f"describe from {self._source.scan(part[:1])}").fetchall()
        if self._has_declared(first):
            with suppress(duckdb.Error):
                self._insert_scanned(self._source.scan(part, by_name=False, names=True))
                return
        self._insert_scanned(self._source.scan(part, names=True))

    def _insert_scanned(self, scan: str) -> None:
        rows = self._source.rows(f"from {scan}", extra=", filename")
        self._cursor.execute(
            f"insert into {self._rows} from ({rows}) left join found on filename = path "
            f"select {self._source.columns}, number"
        )

    def _has_declared(self, columns: Sequence[tuple[str, ...]]) -> bool:
        """Return True if all declared columns are among these, with their types."""
        name = self._source.table.name
        declared = self._cursor.execute(f"describe declared.{name}").fetchall()
        return {each[:2] for each in declared} <= {each[:2] for each in columns}

    def _keep(self, copy: Path) -> None:
        """Write all rows to the copy, which appears whole. A read-only lake has none."""
        import duckdb

        unfinished = copy.with_name(f".{copy.stem}.{uuid.uuid4().hex}")
        rows = f"from {self._rows} join found using (number) select {self._source.columns}"
        try:
            with suppress(OSError, duckdb.Error):
                copy.parent.mkdir(parents=True, exist_ok=True)
                self._cursor.execute(
                    f"copy ({rows}, name, stamp) to {quoted(str(unfinished))} (format parquet)"
                )
                unfinished.replace(copy)
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)


def _listing(
    source: Source, files: Sequence[Path], stats: Sequence[os.stat_result]
) -> pa.RecordBatchReader:
    """Return the files with their number, path, name and stamp, to be read once."""
    import pyarrow as pa

    folder = f"{source.folder}/"
    batch = pa.record_batch(
        {
            "number": pa.array(range(len(files)), pa.int32()),
            "path": [str(path) for path in files],
            "name": [str(path).removeprefix(folder) for path in files],
            "stamp": [f"{each.st_size} {each.st_mtime_ns}" for each in stats],
        }
    )
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])
