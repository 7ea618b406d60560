"""The lake as DuckDB views: one view per table, over one experiment or a shared table.

A lake is a folder or a prefix on an object store. From an object store the views read a local
copy. A view always has the declared columns: a table without files is an empty view, and a
column that older files lack is null.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from reports.columns import DUCKDB_TYPES, PARTITION, SHARED_TABLES, TABLES
from reports.compacted import FOLDER, PER_CELL, open_compacted
from reports.errors import ReportError, UnreadableError

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection
    from upath import UPath

    from reports.columns import LakeTable

Names = str | Sequence[str]
"""The name of an experiment, or several."""

SESSION = "set timezone = 'UTC'; set parquet_metadata_cache = true"
"""Settings that each cursor needs. It does not inherit the settings of its connection."""

_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""A report never fetches a DuckDB extension. The built-in ones are enough."""

MEMORY = "600MB"
"""Memory limit of DuckDB. Relations of a million attempts are moved to temporary files."""

SEVERAL = 500
"""With more files than this, a table is read once, because DuckDB opens the files of a view again
for each query. That takes half a millisecond of processor time a file, however few rows it has."""

_AT_ONCE = 200
"""Files that are read at a time. All of 10,000 at once take twice the time."""


@dataclass(frozen=True)
class TableFiles:
    """The files of a table below a folder."""

    table: LakeTable
    partition: tuple[str, ...]
    folder: Path | UPath
    files: str
    """A shell pattern."""

    @property
    def schema(self) -> pa.Schema:
        """The declared columns, after the columns of the partition."""
        import pyarrow as pa

        from_path = [pa.field(name, pa.string(), nullable=False) for name in self.partition]
        return pa.schema([*from_path, *self.table.schema])

    def rows(self, *scans: str) -> str:
        """Return a query for the rows of some scans, in the declared columns.

        It is text, because DuckDB opens all files again for each step of a relation.
        """
        columns = ", ".join(f'"{name}"' for name in self.schema.names)
        every = " union all by name ".join([f"from declared.{self.table.name}", *scans])
        return f"from ({every}) select {columns}"

    def list_compacted(self) -> Sequence[Path | UPath]:
        """Return the compacted files."""
        if self.table.name not in PER_CELL:
            return []
        return matching(self.folder, f"arm=*/{FOLDER}/*.parquet")

    def scan_compacted(self, units: set[tuple[str, str]]) -> Iterator[str]:
        """Yield queries for the rows of compacted files.

        Leave out these units, by the folder of the arm and by name, and all units of earlier files.
        """
        whole, units = [], set(units)
        for path in self.list_compacted():
            arm, file = path.parent.parent.name, open_compacted(path)
            twice = {unit for unit in file.units if (arm, unit) in units}
            units |= {(arm, unit) for unit in file.units}
            if not twice:
                whole.append(literal_glob(str(path)))
                continue
            scan = self.scan([literal_glob(str(path))], "file_row_number = true")
            ranges = file.find_rows(twice)
            rest = " and ".join(f"file_row_number not between {a} and {b}" for a, b in ranges)
            yield f"from {scan} where {rest}"
        if whole:
            yield f"from {self.scan(whole)}"

    def scan(self, files: Sequence[str], *options: str) -> str:
        """Return the table function that reads patterns of files, as SQL without parameters.

        DuckDB allows no parameters in a view. Partition values stay text, because an arm called
        `007` is not the number 7.
        """
        patterns = ", ".join(map(quote_literal, files))
        types = ", ".join(f"'{name}': varchar" for name in self.partition)
        hive = (
            f"hive_partitioning = true, hive_types = {{{types}}}"
            if self.partition
            else "hive_partitioning = false"
        )
        settings = ", ".join([hive, "union_by_name = true", *options])
        return f"read_parquet([{patterns}], {settings})"


def location(given: str | Path | UPath) -> Path | UPath:
    """Return the location of a lake: the absolute path of a folder, or an object-store prefix.

    The AWS environment variables give a store's endpoint and credentials. Raise ReportError for
    a URL that cannot be a lake, and for variables that cannot be used.
    """
    text = str(given)
    if "://" not in text:
        return Path(text).expanduser().absolute()
    if not re.fullmatch(r"s3://[^/]+(/.*)?", text):
        raise ReportError(f"{text} is not a lake: give a folder, or s3://bucket/prefix")
    from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]
    from upath import UPath  # both take a quarter of a second, and folders do not need them

    # A cached listing would miss the objects of other processes.
    path = UPath(text.rstrip("/"), use_listings_cache=False)
    try:
        path.fs.connect()  # connect now, so that all paths below this one share the connections
    except (ValueError, BotoCoreError) as error:
        raise ReportError(
            f"no object store for {text}: {error}; see AWS_ENDPOINT_URL and AWS_PROFILE"
        ) from None
    return path


def matching(folder: Path | UPath, pattern: str) -> Sequence[Path | UPath]:
    """Return the files below a folder whose relative path matches a shell pattern, sorted.

    An object store lists only names that share the pattern's literal beginning, 1,000 names a
    request.
    """
    if isinstance(folder, Path):
        return sorted(folder.glob(pattern))
    literal = re.split(r"[*?[]", pattern, maxsplit=1)[0]
    above, _, beginning = literal.rpartition("/")
    start = (folder / above).path if above else folder.path
    if not beginning and "/" in start.rstrip("/"):
        # With a beginning, an empty answer is final. Otherwise two more requests would follow.
        start, _, name = start.rstrip("/").rpartition("/")
        beginning = f"{name}/"
    names = folder.fs.find(start, prefix=beginning)
    relative = (name.removeprefix(f"{folder.path.rstrip('/')}/") for name in names)
    wanted = pattern.split("/")
    parts = ((name, name.split("/")) for name in sorted(relative))
    return [
        folder / name
        for name, path in parts
        if len(path) == len(wanted) and all(map(fnmatchcase, path, wanted))
    ]


def list_experiments(lake: Path | UPath) -> list[str]:
    """Return the names of the experiments that have a folder in any table, sorted.

    Raise ReportError if `lake` is not a folder.
    """
    if not lake.is_dir():
        raise ReportError(
            f"there is no lake at {lake}: run `durabench demo` first, or set DURABENCH_LAKE"
        )
    prefix, names = "experiment=", set()
    for table in TABLES:
        with suppress(FileNotFoundError, NotADirectoryError):
            names |= {path.name for path in (lake / table).iterdir()}
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))


def require_experiments(lake: Path | UPath) -> list[str]:
    """Return the names of the experiments in a lake. Raise ReportError if there is none."""
    names = list_experiments(lake)
    if not names:
        raise ReportError(
            f"the lake at {lake} holds no experiment yet: run `durabench demo` first, or set "
            "DURABENCH_LAKE"
        )
    return names


def find_newest(lake: Path | UPath) -> str:
    """Return the name of the experiment that was declared last, or of a job if there is no other.

    Raise ReportError for a missing lake and for one without an experiment.
    """
    *_, last = require_experiments(lake)
    jobs = {f"job-{path.stem}" for path in matching(lake / "jobs", "*.parquet")}
    declarations = TableFiles(
        TABLES["experiments"], PARTITION, lake / "experiments", "experiment=*/arm=*/*.parquet"
    )
    connection = _open_tables(lake, [declarations])
    try:
        rows = connection.execute(
            "select experiment from experiments order by declared_at desc, experiment desc"
        ).fetchall()
        names = [name for (name,) in rows]
        return next((name for name in names if name not in jobs), names[0] if names else last)
    finally:
        connection.close()


def open_lake(
    lake: Path | UPath,
    experiments: Names,
    tables: Collection[str] | None = None,
    *,
    at_once: bool = False,
) -> DuckDBPyConnection:
    """Open an in-memory connection with one view per table of the lake, over some experiments.

    `tables` are names such as `main.attempts`, by default of all tables. The views of `preflights`
    and `images` hold rows that belong to no experiment. With `at_once` they are tables, so that
    each file is opened once. Times are in UTC. The caller closes the connection, and must keep a
    reference to it while reading. Raise ReportError for a missing lake and for an experiment that
    is not in it.
    """
    names = require_experiments(lake)
    for name in _list_names(experiments):
        if name not in names:
            raise ReportError(f"no experiment {name!r} in {lake}; {near(name, names)}")
    sources = _sources(lake, experiments)
    if tables is not None:
        sources = [source for source in sources if f"main.{source.table.name}" in tables]
    return _open_tables(lake, sources, at_once)


def _open_tables(
    lake: Path | UPath, sources: Sequence[TableFiles], at_once: bool = False
) -> DuckDBPyConnection:
    """Open an in-memory connection with a view of each source, or with a table."""
    import duckdb  # imported late because it costs the command line a tenth of a second

    spilled = TemporaryDirectory(prefix="durabench-report-")
    limits = {"memory_limit": MEMORY, "temp_directory": spilled.name}
    connection = duckdb.connect(config={**_OFFLINE, **limits})
    weakref.finalize(connection, spilled.cleanup)
    if not isinstance(lake, Path):
        copy = TemporaryDirectory(prefix="durabench-lake-")
        weakref.finalize(connection, copy.cleanup)
        sources = _copy(lake, sources, Path(copy.name))
    connection.execute(SESSION)
    connection.execute("create schema declared")
    for _, group in groupby(sources, key=attrgetter("table.name")):
        files: list[Path | UPath] = []
        compacted: list[str] = []
        for source in group:
            found = matching(source.folder, source.files)
            files += found
            compacted += source.scan_compacted({(path.parent.name, path.stem) for path in found})
        _declare(connection, source)
        if len(files) + len(compacted) > (0 if at_once else SEVERAL):
            _create_table(connection, source, files, compacted)
            continue
        # The names, not a pattern: a file that a compaction removes meanwhile is an error.
        names = [literal_glob(str(path)) for path in files]
        scans = [f"from {source.scan(names)}", *compacted] if files else compacted
        connection.execute(f"create view {source.table.name} as {source.rows(*scans)}")
    return connection


def unit_file(lake: Path | UPath, table: str, experiment: str, arm: str, unit: str) -> Path | UPath:
    """Return the path of the file for one unit of work. The file need not exist."""
    return lake / table / f"experiment={experiment}" / f"arm={arm}" / f"{unit}.parquet"


def damage(path: Path | UPath, error: Exception) -> str:
    """Return what to do about a file that is not what was written."""
    reason = " ".join(str(error).split())[:200]
    tables = (part.parent.name for part in path.parents if part.name.startswith("experiment="))
    # A run writes all rows of an attempt that has none in `attempts`.
    also = " with its file in attempts" if next(tables, "") in ("llm_calls", "steps") else ""
    return (
        f"{path} is damaged: {reason}; restore it from a copy, or move it{also} out of the lake "
        "and run the experiment again"
    )


@contextmanager
def naming_damage(lake: Path | UPath, experiments: Names) -> Iterator[None]:
    """Name the damaged file if DuckDB cannot read the lake during the block.

    Raise UnreadableError for it.
    """
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        yield
    except duckdb.Error as missing:
        for source in _sources(lake, experiments):
            for path in (*matching(source.folder, source.files), *source.list_compacted()):
                try:
                    pq.ParquetFile(pa.BufferReader(path.read_bytes())).read()
                except pa.ArrowException as error:
                    raise UnreadableError(damage(path, error)) from error
                except OSError as error:
                    raise UnreadableError(
                        f"{path} cannot be read: {error.strerror}; repair the disk and run again"
                    ) from error
        if "No files found" in str(missing):
            raise ReportError("files were compacted in the meantime: run again") from missing
        raise


def near(name: str, known: list[str]) -> str:
    """Return the second half of an "unknown name" message: near matches, or all known names."""
    matches = get_close_matches(name, known)
    if matches:
        return f"did you mean {' or '.join(matches)}?"
    return f"known: {', '.join(known)}"


def _copy(lake: UPath, sources: Sequence[TableFiles], copy: Path) -> list[TableFiles]:
    """Copy the files of some tables from an object store to a local folder. Return them there.

    Many files are fetched at a time, each with one request. DuckDB itself would make a dozen
    requests for each file, one after the other.
    """
    root, names, copied = lake.path.rstrip("/"), [], []
    for source in sources:
        assert not isinstance(source.folder, Path)
        copied.append(replace(source, folder=copy / source.folder.path.removeprefix(f"{root}/")))
        for path in (*matching(source.folder, source.files), *source.list_compacted()):
            assert not isinstance(path, Path)
            names.append(path.path.removeprefix(f"{root}/"))
    lake.fs.get([f"{root}/{name}" for name in names], [str(copy / name) for name in names])
    return copied


def _list_names(experiments: Names) -> Sequence[str]:
    return [experiments] if isinstance(experiments, str) else experiments


def _sources(lake: Path | UPath, experiments: Names) -> list[TableFiles]:
    """Return the files that the views of some experiments read, table by table."""
    sources = [
        TableFiles(table, PARTITION, lake / name / f"experiment={experiment}", "arm=*/*.parquet")
        for name, table in TABLES.items()
        for experiment in _list_names(experiments)
    ]
    sources += [
        TableFiles(table, (), lake / name, "*.parquet") for name, table in SHARED_TABLES.items()
    ]
    return sources


def _declare(connection: DuckDBPyConnection, source: TableFiles) -> None:
    """Create an empty table of the declared types."""
    columns = ", ".join(f'"{field.name}" {DUCKDB_TYPES[field.type]}' for field in source.schema)
    connection.execute(f"create table declared.{source.table.name} ({columns})")


def _create_table(
    connection: DuckDBPyConnection,
    source: TableFiles,
    files: Sequence[Path | UPath],
    compacted: Sequence[str],
) -> None:
    """Read very many files, a few at a time."""
    connection.execute("set threads = 1")  # more take twice the processor time for small files
    connection.execute(f"create table {source.table.name} as {source.rows(*compacted)}")
    for start in range(0, len(files), _AT_ONCE):
        scan = source.scan([literal_glob(str(path)) for path in files[start : start + _AT_ONCE]])
        connection.execute(f"insert into {source.table.name} {source.rows(f'from {scan}')}")
    connection.execute("reset threads")


def quote_literal(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def literal_glob(path: str) -> str:
    """Escape DuckDB's glob characters in a path."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in path)
