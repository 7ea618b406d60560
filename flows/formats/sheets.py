"""Tables as DuckDB reads them: Parquet, delimited text, JSON.

Cells of text are not converted by column, so that one bad cell does not affect others.
"""

import csv
import functools
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.display.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ENDINGS = ".parquet, .csv, .tsv, .json or .jsonl"

_DELIMITERS = ",;\t|"
"""Possible delimiters of a .csv file; the most frequent one in its header is used."""

_MOST_ROWS = 20_000_000
"""Rows of the largest table: a small Parquet file may claim billions."""

_READ_TEXT = """
create temp table rows as
select coalesce(columns(*), '')
from read_csv($file, auto_detect = false, header = false, skip = $skip, columns = {columns},
    delim = $delimiter, quote = '"', escape = '"', strict_mode = true, store_rejects = true)
where trim(concat_ws('', {names})) <> ''
"""

_FIRST_BAD_LINE = """
select line, error_message from reject_errors
where trim(csv_line) <> ''
order by line, column_idx
limit 1
"""

_READ_JSON = """
create temp table rows as
from read_json($file, maximum_depth = 1, sample_size = -1, records = true)
"""


@dataclass(frozen=True)
class Sheet:
    """One table."""

    names: tuple[str, ...]
    """Column names as in the file, with surrounding blanks removed."""
    rows: int
    column: Callable[[int], list[Any]]
    """Function that returns the cells of a column by its position."""

    def find(self, wanted: str) -> list[int]:
        """Return the columns with exactly that name, or else with that name in any case."""
        exact = [i for i, name in enumerate(self.names) if name == wanted]
        folded = wanted.strip().casefold()
        return exact or [i for i, name in enumerate(self.names) if name.casefold() == folded]


@contextmanager
def open_sheet(path: Path, content: bytes) -> Iterator[Sheet]:
    """Open a table for the block.

    Raises:
        UsageError: the file has an unsupported type, or is broken.
    """
    # Import here: most commands never need this library.
    import duckdb

    with (
        tempfile.TemporaryDirectory() as folder,
        duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection,
    ):
        copy = Path(folder) / "table"  # DuckDB may take a path for a pattern or an address
        copy.write_bytes(content)
        try:
            yield _read(path, content, connection, str(copy))
        except (duckdb.Error, csv.Error) as error:
            first = str(error).partition("\n")[0].replace(f' in file "{copy}"', "")
            why = first.partition(" Error: ")[2] or first
            is_json = "JSON" in why or "json" in why
            hint = "; give a JSON list of rows, or one row on each line" if is_json else ""
            raise _unreadable(path, f"{why.rstrip('.')}{hint}") from None


def _read(path: Path, content: bytes, connection: "DuckDBPyConnection", copy: str) -> Sheet:
    match path.suffix.lower():
        case ".parquet" | ".pq":
            return _read_parquet(path, connection, copy)
        case ".csv" | ".tsv":
            return _read_text(path, connection, copy, _text(path, content))
        case ".json" | ".jsonl" | ".ndjson":
            if _text(path, content).strip() in ("", "[]"):
                return Sheet((), 0, lambda _: [])
            connection.execute(_READ_JSON, {"file": copy})
            return _sheet(path, connection, _described(connection), functools.cache(json.loads))
    raise UsageError(f"{path}: a table of results ends in {_ENDINGS}")


def _read_parquet(path: Path, connection: "DuckDBPyConnection", copy: str) -> Sheet:
    [rows] = connection.execute(
        "select sum(num_rows) from parquet_file_metadata(?)", [copy]
    ).fetchone() or (0,)
    if rows > _MOST_ROWS:
        raise _unreadable(path, f"it has {rows} rows, and {_MOST_ROWS} are the most")
    connection.execute("create temp table rows as from read_parquet(?)", [copy])
    schema = connection.execute("select name from parquet_schema(?)", [copy]).fetchall()
    own = {name for (name,) in schema}
    # DuckDB numbers the second one of two columns of one name.
    names = [n if n in own else n.rpartition("_")[0] for n in _described(connection)]
    return _sheet(path, connection, names)


def _read_text(path: Path, connection: "DuckDBPyConnection", copy: str, text: str) -> Sheet:
    first = text.lstrip().partition("\n")[0]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else max(_DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header = next((row for row in reader if any(map(str.strip, row))), None)
    if header is None:
        return Sheet((), 0, lambda _: [])
    columns = {f"c{number}": "VARCHAR" for number in range(len(header))}
    connection.execute(
        _READ_TEXT.format(columns=columns, names=", ".join(columns)),
        {"file": copy, "skip": reader.line_num, "delimiter": delimiter},
    )
    bad = connection.execute(_FIRST_BAD_LINE).fetchone()
    if bad:
        hint = f"put quotes around a cell with {delimiter!r} in it"
        raise _unreadable(path, "line {}: {}".format(*bad) + f"; {hint}")
    return _sheet(path, connection, header)


def _described(connection: "DuckDBPyConnection") -> list[str]:
    return [name for name, *_ in connection.execute("describe rows").fetchall()]


def _sheet(
    path: Path,
    connection: "DuckDBPyConnection",
    names: Sequence[str],
    decode: Callable[[Any], Any] | None = None,
) -> Sheet:
    """Return the table `rows`, whose columns have these names in the file."""
    own = _described(connection)

    def column(position: int) -> list[Any]:
        quoted = own[position].replace('"', '""')
        found = connection.execute(f'select "{quoted}" from rows').fetchall()  # noqa: S608
        values = list(map(itemgetter(0), found))
        if decode is None:
            return values
        try:
            return [None if value is None else decode(value) for value in values]
        except (ValueError, RecursionError):
            raise _unreadable(path, "a number has thousands of digits") from None

    [rows] = connection.execute("select count(*) from rows").fetchone() or (0,)
    return Sheet(tuple(name.strip() for name in names), rows, column)


def _text(path: Path, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:  # UTF-16 without a mark, or no text at all
        raise UsageError(f"{path} cannot be read: it is not UTF-8 text; save it as UTF-8")
    return text


def _unreadable(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} cannot be read: {' '.join(why.split())}")
