"""Byte strings under their SHA-256, in a folder or on an object store."""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import JournalError
from agent.journal.stores import put_object, reason, refusals

if TYPE_CHECKING:
    from upath import UPath


class Blobs:
    """Content-addressed storage: `root/ab/ab12…`, written once and never changed.

    Any number of processes may use one place at the same time. A file has its final name
    only once its bytes are on the disk, an object once the store has all of it.
    """

    def __init__(self, root: "Path | UPath") -> None:
        self.root = root

    def put(self, data: bytes) -> str:
        """Keep `data`, durable against power loss; its SHA-256 in hex.

        Raises:
            JournalError: the disk or the store refuses.
        """
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        try:
            if not isinstance(path, Path):
                put_object(path, data)  # once more costs less than asking whether it is there
            elif not path.is_file():
                _write(path, data)
        except refusals() as error:
            raise JournalError(f"cannot keep {len(data)} bytes: {reason(error)}") from error
        return digest

    def get(self, digest: str) -> bytes:
        """What was put under `digest`.

        Raises:
            JournalError: nothing was, it cannot be read, or its bytes are not those any more.
        """
        path = self._path(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise JournalError(f"{path} is missing", retryable=False) from error
        except refusals() as error:
            raise JournalError(f"{path} cannot be read: {reason(error)}") from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise JournalError(f"{path} is damaged: its SHA-256 is another", retryable=False)
        return data

    def has(self, digest: str) -> bool:
        """Whether something was put under `digest`.

        Raises:
            one of `agent.journal.stores.refusals()`: nobody can tell.
        """
        return self._path(digest).exists()

    def _path(self, digest: str) -> "Path | UPath":
        return self.root / digest[:2] / digest


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    # Power loss must take neither the file's name nor that of a new folder.
    for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
