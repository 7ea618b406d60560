"""The files of a table, and the SQL that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from upath import UPath

    from reports.columns import LakeTable

SESSION = "set timezone = 'UTC'; set parquet_metadata_cache = true"
"""Settings that each cursor needs. It does not inherit those of its connection."""


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
        """The declared columns, those of the partition first."""
        import pyarrow as pa

        from_path = [pa.field(name, pa.string(), nullable=False) for name in self.partition]
        return pa.schema([*from_path, *self.table.schema])

    def rows(self, *scanned: str) -> str:
        """Return a query for the rows of some scans, in the declared columns.

        It is text, because DuckDB opens all files again for each step of a relation.
        """
        columns = ", ".join(f'"{name}"' for name in self.schema.names)
        every = " union all by name ".join([f"from declared.{self.table.name}", *scanned])
        return f"from ({every}) select {columns}"

    def scan(self, files: Sequence[str]) -> str:
        """Return the table function that reads patterns of files, as SQL without parameters.

        DuckDB allows no parameters in a view. Partition values stay text, because an arm called
        `007` is not the number 7.
        """
        patterns = ", ".join(map(quoted, files))
        types = ", ".join(f"'{name}': varchar" for name in self.partition)
        hive = (
            f"hive_partitioning = true, hive_types = {{{types}}}"
            if self.partition
            else "hive_partitioning = false"
        )
        return f"read_parquet([{patterns}], {hive}, union_by_name = true)"


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def literal_glob(path: str) -> str:
    """Escape DuckDB's glob characters in a path."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in path)
