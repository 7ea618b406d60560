"""The content of files of the lake: rows as Parquet, texts as UTF-8.

Patches of files in other encodings are not UTF-8. Python holds each such byte as a lone surrogate.
JSON has an escape for those, so a JSON string holds such a text whole: in a predictions file, and
in a column with the exact copy of a patch.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from agent.shortening import shorten_middle
from reports.columns import LakeTable

SHOWN_CHARACTERS = 64_000
"""Characters of one output that the `steps` table keeps, half from each end."""


def make_readable(text: str) -> str:
    """Return a text as UTF-8 can hold it: a question mark for each lone surrogate."""
    return text.encode("utf-8", "replace").decode("utf-8")


def copy_exactly(text: str) -> str | None:
    """Return a text that is not UTF-8 as a JSON string; None if `make_readable` changes nothing."""
    return None if make_readable(text) == text else json.dumps(text)


def restore(text: str, copy: str | None) -> str:
    """Return the original of the results of `make_readable` and `copy_exactly`."""
    return text if copy is None else str(json.loads(copy))


def encode_patch(text: str) -> bytes:
    """Return the bytes of a patch. A lone surrogate that encodes no byte is written unchanged."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


Row = dict[str, Any]

_SMALL_BYTES = 8 * 2**10
"""Below it, a dictionary and a codec for each column take more time than they save space."""


def encode_table(rows: pa.Table) -> bytes:
    """Return the file of a table."""
    content = pa.BufferOutputStream()
    small = rows.nbytes < _SMALL_BYTES
    codec = "none" if small else "zstd"
    pq.write_table(rows, content, compression=codec, use_dictionary=not small)
    file: bytes = content.getvalue().to_pybytes()
    return file


def add_copy_columns(table: LakeTable, columns: Sequence[str] | None) -> Sequence[str] | None:
    """Return the columns to read for these columns of a table: with their exact copies."""
    if columns is None:
        return None
    copies = (table.exact_copies[name] for name in columns if name in table.exact_copies)
    return [*columns, *copies]


def decode_rows(table: LakeTable, content: pa.Table) -> list[Row]:
    """Return the rows of a file, with the originals of exact copies."""
    rows: list[Row] = content.to_pylist()
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
    rows = [_add_copies(table, row) for row in rows]
    names = set(schema.names)
    unknown = {key for row in rows for key in row} - names
    missing = {name for row in rows for name in names - row.keys()}
    if unknown or missing:
        raise ValueError(f"{table.name}: unknown columns {unknown}, missing columns {missing}")
    arrow = pa.Table.from_pylist(rows, schema=schema)
    arrow.validate(full=True)
    return encode_table(arrow)


def _add_copies(table: LakeTable, row: Row) -> Row:
    """Return a row with its exact copies, and with texts that Parquet accepts."""
    complete = dict(row)
    for name, copy in table.exact_copies.items():
        if name in row:
            complete[copy] = None
        if isinstance(text := row.get(name), str):
            complete |= {name: make_readable(text), copy: copy_exactly(text)}
    return complete


def patch_row(cell: Row, arm: str, patch: str) -> Row:
    """Return a row of `predictions`. `cell` holds attempt, instance and repeat."""
    return {
        **cell,
        "model_name_or_path": arm,
        "model_patch": patch,
        "patch_sha256": patch_sha256(patch),
    }


def patch_sha256(patch: str) -> str:
    """Return the SHA-256 of the bytes of a patch."""
    return hashlib.sha256(encode_patch(patch)).hexdigest()


def content_json(content: Any) -> str:
    """Return what an action returned for `steps`, with the middle of long texts removed."""
    return make_readable(json.dumps(_shorten(content), ensure_ascii=False))


def _shorten(content: Any) -> Any:
    match content:
        case str():
            return shorten_middle(content, SHOWN_CHARACTERS)
        case list():
            return [_shorten(element) for element in content]
        case dict():
            return {name: _shorten(value) for name, value in content.items()}
        case _:
            return content


def output_json(output: str) -> str:
    """Return a command's output for `steps`, with the middle removed if it is long."""
    text = make_readable(shorten_middle(output, SHOWN_CHARACTERS))
    return json.dumps({"output": text}, ensure_ascii=False)
