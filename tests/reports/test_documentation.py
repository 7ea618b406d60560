"""The generated documentation of the lake."""

from reports.columns import TABLES
from reports.documentation import DOCUMENT, tables_markdown


def test_the_document_is_up_to_date() -> None:
    """The document matches the columns; `python -m reports.documentation` updates it."""
    assert DOCUMENT.read_text(encoding="utf-8") == tables_markdown()


def test_every_column_is_named() -> None:
    """Every column is listed in the section of its table."""
    text = tables_markdown()
    for table in TABLES.values():
        section = text.split(f"## {table.name}\n")[1].split("\n## ")[0]
        assert all(f"| `{column.name}` |" in section for column in table.columns)
