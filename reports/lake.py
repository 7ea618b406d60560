"""The lake as DuckDB views: one view per table, over one experiment or over what all share.

A view has the declared columns whatever the files hold: a table without files is an empty
view, and a column that older files lack is null.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from reports.columns import PARTITION, SHARED_TABLES, TABLES, Table
from reports.errors import ReportError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""A report never fetches a DuckDB extension; what it needs is built in."""


def list_experiments(lake: Path) -> list[str]:
    """Names of the experiments that have a folder in any table, sorted.

    Raises ReportError when `lake` is not a folder.
    """
    if not lake.is_dir():
        raise ReportError(
            f"there is no lake at {lake}: run an experiment first, or set DURABENCH_LAKE"
        )
    prefix = "experiment="
    folders = (path.name for name in TABLES for path in (lake / name).glob(f"{prefix}*"))
    return sorted({folder.removeprefix(prefix) for folder in folders})


def open_lake(lake: Path, experiment: str) -> DuckDBPyConnection:
    """A connection in memory with one view per table of the lake, over one experiment.

    The views of `preflights` and `images` hold what belongs to no experiment. Times come out
    in UTC. The caller closes the connection. Raises ReportError for a missing lake and for an
    experiment that is not in it.
    """
    import duckdb  # here because it costs the command line a tenth of a second

    _require(experiment, lake)
    connection = duckdb.connect(config=_OFFLINE)
    connection.execute("set timezone = 'UTC'; set parquet_metadata_cache = true")
    connection.execute("create schema declared")
    for table in TABLES.values():
        folder = lake / table.name / f"experiment={experiment}"
        _create_view(connection, table, PARTITION, folder, "arm=*/*.parquet")
    for table in SHARED_TABLES.values():
        _create_view(connection, table, (), lake / table.name, "*.parquet")
    return connection


def unit_file(lake: Path, table: str, experiment: str, arm: str, unit: str) -> Path:
    """Where the rows of one unit of work are, if there are any."""
    return lake / table / f"experiment={experiment}" / f"arm={arm}" / f"{unit}.parquet"


def near(name: str, known: list[str]) -> str:
    """The second half of an "unknown name" message: near matches, or all names there are."""
    matches = get_close_matches(name, known)
    if matches:
        return f"did you mean {' or '.join(matches)}?"
    return f"known: {', '.join(known)}"


def _require(experiment: str, lake: Path) -> None:
    known = list_experiments(lake)
    if not known:
        raise ReportError(f"the lake at {lake} holds no experiment yet: run one first")
    if experiment not in known:
        raise ReportError(f"no experiment {experiment!r} in {lake}; {near(experiment, known)}")


def _create_view(
    connection: DuckDBPyConnection,
    table: Table,
    partition: tuple[str, ...],
    folder: Path,
    files: str,
) -> None:
    """Declared columns from an empty table of the declared types, rows from the files."""
    import pyarrow as pa

    from_path = [pa.field(name, pa.string(), nullable=False) for name in partition]
    declared = pa.schema([*from_path, *table.schema])
    connection.register("declaration", declared.empty_table())
    connection.execute(f"create table declared.{table.name} as from declaration")
    connection.unregister("declaration")
    rows = f"from declared.{table.name}"
    if any(folder.glob(files)):
        rows += f" union all by name from {_scan(folder, files, partition)}"
    columns = ", ".join(f'"{name}"' for name in declared.names)
    connection.sql(rows).project(columns).create_view(table.name)


def _scan(folder: Path, files: str, partition: tuple[str, ...]) -> str:
    """The table function that reads a folder; DuckDB takes no parameters in a view.

    Partition values stay text: an arm called `007` is not the number 7.
    """
    pattern = f"{_literal_glob(str(folder))}/{files}".replace("'", "''")
    types = ", ".join(f"'{name}': varchar" for name in partition)
    hive = (
        f"hive_partitioning = true, hive_types = {{{types}}}"
        if partition
        else ("hive_partitioning = false")
    )
    return f"read_parquet('{pattern}', {hive}, union_by_name = true)"


def _literal_glob(path: str) -> str:
    """A path in which DuckDB's glob characters mean themselves."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in path)
