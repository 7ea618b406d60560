"""Disks and object stores: what is written to either at once, and what either refuses with.

A place on a disk is a `pathlib.Path`, one on an object store a `upath.UPath`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upath import UPath


def put_object(path: "UPath", data: bytes) -> None:
    """Write an object: whole or not at all, and durable once this returns.

    Not `path.write_bytes`, which would also finish a large upload that broke off.

    Raises:
        one of `refusals()`: the store refuses or does not answer.
    """
    path.fs.pipe_file(path.path, data)


def create_object(path: "UPath", data: bytes) -> bool:
    """Write an object unless there is one of that name; whether it was written.

    Raises:
        one of `refusals()`: the store refuses or does not answer.
    """
    try:
        path.fs.pipe_file(path.path, data, mode="create")
    except FileExistsError:
        return False
    except OSError as error:
        # Of two that write at the same moment, a store may turn one away and mean the same.
        if path.exists():
            return False
        raise error
    return True


def refusals() -> tuple[type[Exception], ...]:
    """What reading and writing raise on a disk or an object store that refuses.

    For `except` clauses. s3fs turns only answers of the store into OSErrors; what keeps it from
    asking or from reading the answer comes as the libraries below raise it.
    """
    from aiohttp import ClientError
    from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]
    from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]

    return (OSError, BotoCoreError, ResponseParserError, ClientError)


def is_away(error: Exception) -> bool:
    """Whether nobody answered, so that the same may work in minutes."""
    from aiohttp import ClientError
    from botocore.exceptions import ConnectionError as NoConnection
    from botocore.exceptions import HTTPClientError

    return isinstance(error, (TimeoutError, NoConnection, HTTPClientError, ClientError))


def reason(error: Exception) -> str:
    """What a refusal says, in one line."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return " ".join(text.split()) or type(error).__name__
