"""The tables of the lake, as [TABLES.md](TABLES.md) declares them.

That page is the only declaration of name, type, unit and meaning. The Arrow schemas, the writer and
the readers follow it. `experiment` and `arm` are columns of every table of an experiment too, taken
from the path of a file.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

DOCUMENT = Path(__file__).parent / "TABLES.md"

PARTITION = ("experiment", "arm")
"""The columns that every table of experiments takes from its path."""

_ARMS = [pa.field(arm, pa.string(), nullable=False) for arm in ("baseline", "candidate")]

DUCKDB_TYPES: dict[pa.DataType, str] = {
    pa.string(): "varchar",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamptz",
    pa.list_(pa.string()): "varchar[]",
    pa.list_(pa.struct(_ARMS)): "struct(baseline varchar, candidate varchar)[]",
}
"""The types of columns, with their names in DuckDB."""

_TYPES = {str(kind): kind for kind in DUCKDB_TYPES}


@dataclass(frozen=True)
class Column:
    """One column of one table."""

    name: str
    type: pa.DataType
    required: bool
    """False if null has a meaning, which the page states."""


@dataclass(frozen=True)
class LakeTable:
    """One table, with its columns except `PARTITION`."""

    name: str
    columns: tuple[Column, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema of one file."""
        return pa.schema([pa.field(c.name, c.type, nullable=not c.required) for c in self.columns])

    @cached_property
    def exact_copies(self) -> dict[str, str]:
        """Columns that are kept byte by byte, each with the column of its exact copy.

        The copy holds the whole value as a JSON string where UTF-8 cannot hold it.
        """
        names = {column.name for column in self.columns}
        return {name: f"{name}_json" for name in names if f"{name}_json" in names}


def _read_tables() -> dict[str, LakeTable]:
    """Read each section of the page as a table. Raise KeyError for an unknown type."""
    tables = {}
    for section in DOCUMENT.read_text(encoding="utf-8").split("\n## ")[1:]:
        name, _, text = section.partition("\n")
        rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \|[^|]*\| (yes|no) \|", text, re.MULTILINE)
        columns = (Column(column, _TYPES[kind], null == "no") for column, kind, null in rows)
        tables[name] = LakeTable(name, tuple(columns))
    return tables


_SHARED = ("preflights", "images", "jobs")
_DECLARED = _read_tables()

TABLES = {name: table for name, table in _DECLARED.items() if name not in _SHARED}
"""Tables of experiments, in folders by experiment and arm."""

SHARED_TABLES = {name: _DECLARED[name] for name in _SHARED}
"""Tables that belong to no experiment: `<table>/<unit>.parquet`."""
