"""Read table files without conversion: Parquet, delimited text, JSON.

Cells are not converted by column, so that one bad cell does not affect others: text stays text, and
missing values are None.
"""

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from flows.errors import UsageError

ENDINGS = ".parquet, .csv, .tsv, .json or .jsonl"

DELIMITERS = ",;\t|"
"""Possible delimiters of a .csv file; the most frequent one in its header is used."""

_ROWS_AT_ONCE = 1_000
"""Rows of text that are held as rows; all others are held as columns of interned text. Ten times as
many leave the processor's cache, and take half as long again."""


@dataclass(frozen=True)
class Sheet:
    """One table."""

    names: tuple[str, ...]
    """Column names as in the file, with surrounding blanks removed."""
    rows: int
    column: Callable[[int], list[Any]]
    """Function that returns the cells of a column by its position."""


def parse(path: Path, content: bytes) -> Sheet:
    """Parse a table from the content of a file.

    Raises:
        UsageError: the file has an unsupported type, or is broken.
    """
    match path.suffix.lower():
        case ".parquet" | ".pq":
            return _parquet(path, content)
        case ".csv":
            text = _text(path, content)
            return _delimited(path, text, _delimiter(text))
        case ".tsv":
            return _delimited(path, _text(path, content), "\t")
        case ".json" | ".jsonl" | ".ndjson":
            return _objects(path, _json(path, _text(path, content)))
    raise UsageError(f"{path}: a table of results ends in {ENDINGS}")


def _parquet(path: Path, content: bytes) -> Sheet:
    # Import here: most commands never need this library.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Unlike `read_table`, this reads two columns of one name.
        table = pq.ParquetFile(pa.BufferReader(content)).read()
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None
    names = tuple(str(name).strip() for name in table.column_names)

    def column(position: int) -> list[Any]:
        try:
            cells: list[Any] = table.column(position).to_pylist()
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise _unreadable(path, f"column {names[position]}: {error}") from None
        return cells

    return Sheet(names, table.num_rows, column)


def _delimiter(text: str) -> str:
    header = text.partition("\n")[0]
    return max(DELIMITERS, key=header.count)


def _delimited(path: Path, text: str, delimiter: str) -> Sheet:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    filled = (row for row in reader if any(map(str.strip, row)))
    columns: list[list[str]] = []
    try:
        header = next(filled, [])
        columns = [[] for _ in header]
        rows = 0
        while batch := list(islice(filled, _ROWS_AT_ONCE)):
            if {len(header)} != set(map(len, batch)):
                raise _uneven(path, rows, batch, len(header), delimiter)
            for column, cells in zip(columns, zip(*batch, strict=True), strict=True):
                column.extend(map(sys.intern, cells))
            rows += len(batch)
    except csv.Error as error:
        raise _unreadable(path, f"line {reader.line_num}: {error}") from None
    names = tuple(name.strip() for name in header)
    return Sheet(names, rows, columns.__getitem__)


def _uneven(
    path: Path, before: int, rows: Sequence[Sequence[str]], cells: int, delimiter: str
) -> UsageError:
    """Return the error of the first row whose number of cells is not that of the header."""
    number, found = next(
        (n, len(row)) for n, row in enumerate(rows, before + 1) if len(row) != cells
    )
    return UsageError(
        f"{path}, row {number}: has {found} cells, and the header {cells}; put quotes around a "
        f"cell with {delimiter!r} in it"
    )


def _json(path: Path, text: str) -> list[Any]:
    """Parse a list of rows, or one row per line."""
    if text.lstrip().startswith("["):
        rows: list[Any] = _value(path, text, "")
        return rows
    lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
    return [_value(path, line, f"line {number}: ") for number, line in lines]


def _value(path: Path, text: str, where: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object)
    except (json.JSONDecodeError, RecursionError) as error:
        raise _unreadable(
            path, f"{where}{error}; give a JSON list of rows, or one row on each line"
        ) from None
    except _ContradictingKeys as error:
        raise _unreadable(path, f"{where}{error}; remove one of the two") from None
    except ValueError:
        raise _unreadable(path, f"{where}a number has thousands of digits") from None


class _ContradictingKeys(ValueError):
    """An object has a key twice, with different values."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and repr(found[key]) != repr(value):
            raise _ContradictingKeys(f"a row has {key[:100]!r} twice, with different values")
        found[key] = value
    return found


def _objects(path: Path, rows: list[Any]) -> Sheet:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise UsageError(
                f"{path}, row {number}: not a JSON object with a value for each column"
            )
    names = list(dict.fromkeys(name for row in rows for name in row))
    return Sheet(
        tuple(name.strip() for name in names),
        len(rows),
        lambda position: [row.get(names[position]) for row in rows],
    )


def _text(path: Path, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:  # UTF-16 without a mark, or no text at all
        raise UsageError(f"{path} cannot be read: it is not UTF-8 text; save it as UTF-8")
    return text


def _unreadable(path: Path, why: object) -> UsageError:
    return UsageError(f"{path} cannot be read: {' '.join(str(why).split())}")
