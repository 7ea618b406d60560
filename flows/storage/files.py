"""Files of the lake, on a disk or an object store: written whole, rows as Parquet, texts as UTF-8.

Patches of files in other encodings are not UTF-8. Python holds each such byte as a lone surrogate.
JSON has an escape for those, so a JSON string holds such a text whole: in a predictions file, and
in a column with the exact copy beside a patch.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from agent.stores import create_object, put_object, replace_file
from reports.columns import LakeTable

if TYPE_CHECKING:
    from upath import UPath


def make_readable(text: str) -> str:
    """Return a text as UTF-8 can hold it: a question mark for each lone surrogate."""
    return text.encode("utf-8", "replace").decode("utf-8")


def copy_exactly(text: str) -> str | None:
    """Return a text that is not UTF-8 as a JSON string; None if `make_readable` says all."""
    return None if make_readable(text) == text else json.dumps(text)


def restore(text: str, copy: str | None) -> str:
    """Return the text of which `make_readable` and `copy_exactly` were made."""
    return text if copy is None else str(json.loads(copy))


def encode_patch(text: str) -> bytes:
    """Return the bytes of a patch. A lone surrogate that stands for no byte is written as it is."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def find_existing(folder: "Path | UPath") -> "Path | UPath":
    """Return the folder, or the nearest one above it that exists."""
    if not isinstance(folder, Path):
        return folder
    return next(one for one in (folder, *folder.parents) if one.exists() or one.is_symlink())


def write_file(path: "Path | UPath", content: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        one of `refusals()`: the disk or the store rejects it.
    """
    if not isinstance(path, Path):
        put_object(path, content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content, durable=False)


def create_file(path: "Path | UPath", content: bytes) -> bool:
    """Create a file in its own folder unless it exists. Return True if it was written.

    Raises:
        one of `refusals()`: the disk or the store rejects it.
    """
    if not isinstance(path, Path):
        return create_object(path, content)
    if path.exists():
        return False
    folder = path.parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Not every disk supports links, but on every disk a folder can only replace an empty folder.
    with TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}.") as temporary:
        made = Path(temporary) / folder.name
        made.mkdir()
        with (made / path.name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            made.rename(folder)
        except OSError:
            if path.exists():
                return False
            raise
    return True


def remove_file(path: "Path | UPath") -> None:
    """Remove a file; on a disk, it need not exist.

    Raises:
        one of `refusals()`: the disk or the store rejects it.
    """
    if isinstance(path, Path):
        path.unlink(missing_ok=True)
    else:
        path.fs.rm_file(path.path)  # `unlink` would treat the name as a pattern


Row = dict[str, Any]

_SMALL_BYTES = 8 * 2**10
"""Below it, a dictionary and a codec for each column take more time than they save space."""


def encode_table(rows: pa.Table) -> bytes:
    """Return the file of a table."""
    content = pa.BufferOutputStream()
    small = rows.nbytes < _SMALL_BYTES
    codec = "none" if small else "zstd"
    pq.write_table(rows, content, compression=codec, use_dictionary=not small)
    written: bytes = content.getvalue().to_pybytes()
    return written


def decode_rows(
    table: LakeTable, content: bytes, columns: Sequence[str] | None = None
) -> list[Row]:
    """Return the rows of a file, with these columns or all of them."""
    file = pq.ParquetFile(pa.BufferReader(content))
    if columns is not None:
        copies = (table.exact_copies[name] for name in columns if name in table.exact_copies)
        columns = [*columns, *copies]
    # A file is small, so other threads cost more than they save.
    rows: list[Row] = file.read(columns=columns, use_threads=False).to_pylist()
    for row in rows:
        for name, copy in table.exact_copies.items():
            if name in row:  # an earlier release wrote no copies
                row[name] = restore(row[name], row.pop(copy, None))
    return rows


def encode_rows(table: LakeTable, rows: list[Row]) -> bytes:
    """Return the file of the rows of a table.

    Raises:
        ValueError, pyarrow.ArrowInvalid: a row does not fit the declared columns.
    """
    schema = table.schema
    rows = [_with_copies(table, row) for row in rows]
    names = set(schema.names)
    unknown = {key for row in rows for key in row} - names
    missing = {name for row in rows for name in names - row.keys()}
    if unknown or missing:
        raise ValueError(f"{table.name}: unknown columns {unknown}, missing columns {missing}")
    arrow = pa.Table.from_pylist(rows, schema=schema)
    arrow.validate(full=True)
    return encode_table(arrow)


def _with_copies(table: LakeTable, row: Row) -> Row:
    """Return a row with its exact copies, and with texts that Parquet accepts."""
    written = dict(row)
    for name, copy in table.exact_copies.items():
        if name in row:
            written[copy] = None
        if isinstance(text := row.get(name), str):
            written |= {name: make_readable(text), copy: copy_exactly(text)}
    return written
