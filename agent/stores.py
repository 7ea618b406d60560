"""Disks and object stores: writes, and the errors that both raise.

A location on a disk is a `pathlib.Path`, one on an object store a `upath.UPath`.
"""

import mimetypes
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import one_line

if TYPE_CHECKING:
    from upath import UPath


def replace_file(path: Path, data: bytes) -> None:
    """Create or replace a file on a disk, whole or not at all. Its folder must exist.

    The bytes are on the disk before the file has its name.

    Raises:
        OSError: the disk rejects the write. No partial file remains.
    """
    temporary = path.with_name(f".{path.stem}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_private(folder: Path) -> None:
    """Create a folder that only its owner can enter. One that exists keeps its mode.

    Raises:
        OSError: the disk rejects it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def create_private(path: Path) -> None:
    """Create an empty file that only its owner can read. One that exists keeps its mode.

    Raises:
        OSError: the disk rejects it.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def put_object(path: "UPath", data: bytes) -> None:
    """Write an object atomically. It is durable when this returns.

    `path.write_bytes` would also complete an interrupted large upload. Browsers show a page only
    if its content type says that it is one.

    Raises:
        one of `refusals()`: the store rejects the write or does not respond.
    """
    kind, _ = mimetypes.guess_type(path.name)
    path.fs.pipe_file(path.path, data, **({"ContentType": kind} if kind else {}))


def create_object(path: "UPath", data: bytes) -> bool:
    """Write an object unless one of that name exists. Return True if it was written.

    Raises:
        one of `refusals()`: the store rejects the write or does not respond.
    """
    try:
        path.fs.pipe_file(path.path, data, mode="create")
    except FileExistsError:
        return False
    except OSError as error:
        # If two writers write at the same moment, a store may reject one because of the other.
        if path.exists():
            return False
        raise error
    return True


def refusals() -> tuple[type[Exception], ...]:
    """Return the errors that reading and writing raise when a disk or an object store fails.

    Use them in `except` clauses. s3fs turns only responses of the store into OSErrors. Errors
    before the request or while reading the response are errors of the libraries below.
    """
    from aiohttp import ClientError
    from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]
    from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]

    return (OSError, BotoCoreError, ResponseParserError, ClientError)


def is_away(error: Exception) -> bool:
    """Return True if the store did not respond, so that a retry within minutes may work."""
    from aiohttp import ClientError
    from botocore.exceptions import ConnectionError as NoConnection
    from botocore.exceptions import HTTPClientError

    return isinstance(error, (TimeoutError, NoConnection, HTTPClientError, ClientError))


def reason(error: Exception) -> str:
    """Return the message of an error in one line. It does not name a file."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return one_line(error)
