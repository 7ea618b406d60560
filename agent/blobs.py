"""A folder of byte strings under their SHA-256."""

import hashlib
import os
import tempfile
from pathlib import Path

from agent.errors import JournalError


class Blobs:
    """Content-addressed storage: `root/ab/ab12…`, written once and never changed.

    Any number of processes may use one folder at the same time. A file has its final name
    only once its bytes are on the disk.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, data: bytes) -> str:
        """Keep `data`, durable against power loss; its SHA-256 in hex.

        Raises:
            JournalError: the disk refuses.
        """
        digest = hashlib.sha256(data).hexdigest()
        if not self.has(digest):
            try:
                _write(self._path(digest), data)
            except OSError as error:
                raise JournalError(f"cannot keep {len(data)} bytes: {error}") from error
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
        except OSError as error:
            raise JournalError(f"{path} cannot be read: {error}") from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise JournalError(f"{path} is damaged: its SHA-256 is another", retryable=False)
        return data

    def has(self, digest: str) -> bool:
        """Whether something was put under `digest`."""
        return self._path(digest).is_file()

    def _path(self, digest: str) -> Path:
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
