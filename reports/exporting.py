"""Every relation of an experiment in one DuckDB file, for people who work in SQL."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from reports.columns import SHARED_TABLES, TABLES
from reports.relations import MARTS, STAGING, open_marts

if TYPE_CHECKING:
    from upath import UPath

LAKE = "lake"
"""Schema of the tables as they are in the lake."""


def write_relations(lake: Path | UPath, experiment: str, output: Path) -> dict[str, int]:
    """Write the tables of the lake, `staging` and `marts` to a file. Return rows by relation.

    The file appears whole or not at all, and replaces an earlier one. Raise ReportError as
    `reports.lake.open_lake` does, and OSError if the file cannot be written.
    """
    relations = {f"{LAKE}.{name}": f"main.{name}" for name in (*TABLES, *SHARED_TABLES)}
    for schema, names in (("staging", STAGING), ("marts", MARTS)):
        relations |= {f"{schema}.{name}": f"{schema}.{name}" for name in names}
    connection = open_marts(lake, experiment)
    try:
        # In the folder of the file, because a rename works on one disk only.
        with TemporaryDirectory(dir=output.absolute().parent, prefix=".durabench-") as folder:
            made = Path(folder) / "made.duckdb"
            quoted = str(made).replace("'", "''")
            connection.execute(f"attach '{quoted}' as made")
            for schema in (LAKE, "staging", "marts"):
                connection.execute(f"create schema made.{schema}")
            for name, source in relations.items():
                connection.table(source).create(f"made.{name}")
            rows = {name: len(connection.table(f"made.{name}")) for name in relations}
            connection.execute("detach made")
            made.replace(output)
    finally:
        connection.close()
    return rows
