"""Rows of the lake's tables as Parquet files.

A patch is read as it was written, also one that is not UTF-8: its exact copy, in another column,
is written and read with it.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.storage.exact import copy_exactly, make_readable, restore
from reports.columns import LakeTable

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


def decode(table: LakeTable, content: bytes, columns: Sequence[str] | None = None) -> list[Row]:
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


def encode(table: LakeTable, rows: list[Row]) -> bytes:
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
