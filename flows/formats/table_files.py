"""Tables as DuckDB reads them: Parquet, delimited text, JSON, also SWE-bench's leaderboards.

Cells of text are not converted by column, so that one bad cell does not affect others.
"""

import csv
import io
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flows.display.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
import json
from collections import Counter

from pydantic import BaseModel, ValidationError

from flows.formats.attempts import first_problem

_BEGINNING = re.compile(rb'\s*\{\s*"leaderboards"')

_MODEL = "Model: "


class _Cell(BaseModel):
    resolved: bool | None = None
    cost: float | None = None
    api_calls: float | None = None


class _Entry(BaseModel):
    name: str
    cost: float | None = None
    tags: list[str] | None = None
    per_instance_details: dict[str, _Cell] | None = None

    @property
    def model(self) -> str | None:
        """The model of which the entry has a tag; None without one, and with several."""
        models = [tag.removeprefix(_MODEL) for tag in self.tags or () if tag.startswith(_MODEL)]
        return models[0] if len(models) == 1 else None


class _Leaderboard(BaseModel):
    name: str
    results: list[_Entry]


class _Leaderboards(BaseModel):
    leaderboards: list[_Leaderboard]


def flatten(path: Path, content: bytes) -> bytes:
    """Return leaderboards as a JSON list of rows, and any other content as it is.

    The published total of an entry is in `total_cost`. Entries without results of instances are
    left out. The leaderboard is added to a name that several of them have.

    Raises:
        UsageError: the leaderboards cannot be used.
    """
    text = content.removeprefix(b"\xef\xbb\xbf")
    if path.suffix.lower() != ".json" or not _BEGINNING.match(text):
        return content
    try:
        boards = _Leaderboards.model_validate_json(text).leaderboards
    except ValidationError as error:
        problem = first_problem(error)
        raise UsageError(f"{path}: not leaderboards of SWE-bench ({problem})") from None
    rows = list(_list_rows(boards))
    if not rows:
        raise UsageError(f"{path}: no leaderboard has results of instances")
    return json.dumps(rows).encode()


def _list_rows(boards: list[_Leaderboard]) -> Iterator[dict[str, object]]:
    entries = [(board.name, entry) for board in boards for entry in board.results]
    names = Counter(entry.name for _, entry in entries if entry.per_instance_details)
    for board, entry in entries:
        arm = f"{entry.name} ({board})" if names[entry.name] > 1 else entry.name
        for instance_id, cell in (entry.per_instance_details or {}).items():
            row = {"arm": arm, "model": entry.model, "instance_id": instance_id}
            yield row | {"total_cost": entry.cost} | cell.model_dump()


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
    """The temporary table `rows` of a connection."""

    connection: "DuckDBPyConnection"
    names: tuple[str, ...]
    """Column names as in the file, with surrounding blanks removed."""
    columns: Sequence[tuple[str, str]]
    """Name and type of each column in `rows`."""

    def find(self, wanted: str) -> list[int]:
        """Return the columns with exactly that name, or else with its letters in any case."""
        exact = [i for i, name in enumerate(self.names) if name == wanted]
        letters = _fold(wanted)
        return exact or [i for i, name in enumerate(self.names) if letters == _fold(name)]

    def write_sql(self, position: int, *, is_name: bool) -> str:
        """Return SQL for a column as text. What cannot be a name becomes a control character."""
        column, kind = self.columns[position]
        quoted = '"' + column.replace('"', '""') + '"'
        if kind == "JSON":
            text, type_ = f"{quoted}->>'$'", f"json_type({quoted})"
            names = f"{type_} in ('VARCHAR', 'UBIGINT', 'BIGINT', 'NULL')"
        elif kind == "BLOB":
            text, names = f"try(decode({quoted}))", f"try(decode({quoted})) is not null"
        elif kind.startswith("DECIMAL"):
            text, names = f"{quoted}::varchar", f"{quoted} = floor({quoted})"
            text = f"case when {names} then ({quoted}::hugeint)::varchar else {text} end"
        else:
            text = f"{quoted}::varchar"
            names = str(kind == "VARCHAR" or kind.endswith(("INT", "INTEGER")))
        if not is_name:
            return f"({text})"
        return f"(case when {quoted} is null then null when {names} then {text} else chr(0) end)"


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
            names = _read_parquet(path, connection, copy)
        case ".csv" | ".tsv":
            names = _read_text(path, connection, copy, _text(path, content))
        case ".json" | ".jsonl" | ".ndjson":
            if _text(path, content).strip() in ("", "[]"):
                raise UsageError(f"{path} has no rows")
            connection.execute(_READ_JSON, {"file": copy})
            names = _describe_columns(connection)
        case _:
            raise UsageError(f"{path}: a table of results ends in {_ENDINGS}")
    [rows] = connection.execute("select count(*) from rows").fetchone() or (0,)
    if not rows:
        raise UsageError(f"{path} has no rows")
    columns = [(name, kind) for name, kind, *_ in connection.execute("describe rows").fetchall()]
    return Sheet(connection, tuple(name.strip() for name in names), columns)


def _read_parquet(path: Path, connection: "DuckDBPyConnection", copy: str) -> list[str]:
    [rows] = connection.execute(
        "select sum(num_rows) from parquet_file_metadata(?)", [copy]
    ).fetchone() or (0,)
    if rows > _MOST_ROWS:
        raise _unreadable(path, f"it has {rows} rows, and {_MOST_ROWS} are the most")
    connection.execute("create temp table rows as from read_parquet(?)", [copy])
    schema = connection.execute("select name from parquet_schema(?)", [copy]).fetchall()
    names = {name for (name,) in schema}
    # DuckDB numbers the second of two columns of one name.
    return [n if n in names else n.rpartition("_")[0] for n in _describe_columns(connection)]


def _read_text(path: Path, connection: "DuckDBPyConnection", copy: str, text: str) -> list[str]:
    first = text.lstrip().partition("\n")[0]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else max(_DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header = next((row for row in reader if any(map(str.strip, row))), None)
    if header is None:
        raise UsageError(f"{path} has no rows")
    columns = {f"c{number}": "VARCHAR" for number in range(len(header))}
    connection.execute(
        _READ_TEXT.format(columns=columns, names=", ".join(columns)),
        {"file": copy, "skip": reader.line_num, "delimiter": delimiter},
    )
    bad = connection.execute(_FIRST_BAD_LINE).fetchone()
    if bad:
        hint = f"put quotes around a cell with {delimiter!r} in it"
        raise _unreadable(path, "line {}: {}".format(*bad) + f"; {hint}")
    return header


def _fold(name: str) -> str:
    """Return a name in lower case, with an underscore for each run of other characters."""
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_") or name


def _describe_columns(connection: "DuckDBPyConnection") -> list[str]:
    return [name for name, *_ in connection.execute("describe rows").fetchall()]


def _text(path: Path, content: bytes) -> str:
    try:
        if b"\0" not in content:  # UTF-16 without a mark, or no text at all
            return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    raise UsageError(f"{path} cannot be read: it is not UTF-8 text; save it as UTF-8")


def _unreadable(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} cannot be read: {' '.join(why.split())}")
