"""Markdown documentation of the lake's tables, generated from their declaration.

`python -m reports.documentation` rewrites `reports/TABLES.md`. A test fails if it is stale.
"""

from pathlib import Path

from reports.columns import PARTITION, SHARED_TABLES, TABLES, Column, LakeTable

DOCUMENT = Path(__file__).parent / "TABLES.md"

_INTRODUCTION = f"""\
# Tables of the lake

Written by `python -m reports.documentation` from `reports/columns.py`; change it there.

Each table is a folder of Parquet files, `<table>/experiment=<name>/arm=<name>/<unit>.parquet`,
one immutable file per finished unit of work. The columns {" and ".join(PARTITION)} come from
the path. Tables of no experiment ({", ".join(SHARED_TABLES)}) have files `<table>/<unit>.parquet`.
Times are UTC; null means unknown, never zero.
"""


def tables_markdown() -> str:
    """Return the whole document: one section per table with its grain and columns."""
    tables = [*TABLES.values(), *SHARED_TABLES.values()]
    return "\n".join([_INTRODUCTION, *(_section(table) for table in tables)])


def _section(table: LakeTable) -> str:
    rows = "\n".join(_row(column) for column in table.columns)
    return (
        f"## {table.name}\n\nOne row is {table.grain}.\n\n"
        f"| column | type | unit | null | meaning |\n| --- | --- | --- | --- | --- |\n{rows}\n"
    )


def _row(column: Column) -> str:
    null = "no" if column.required else "yes"
    meaning = column.meaning.replace("|", "\\|")
    return f"| `{column.name}` | `{column.type}` | {column.unit} | {null} | {meaning} |"


if __name__ == "__main__":
    DOCUMENT.write_text(tables_markdown(), encoding="utf-8")
