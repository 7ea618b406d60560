"""Bodies of requests and results: packed into a row, or stored under their SHA-256.

A packed body is one byte for the encoding, then the content.
"""

import hashlib
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import JournalError
from agent.stores import put_object, reason, refusals, replace_file

if TYPE_CHECKING:
    from upath import UPath


PLAIN, COMPRESSED, BLOB = 0, 1, 2

COMPRESS_ABOVE = 1024
BLOB_ABOVE = 256 * 1024
"""Sizes before compression, bytes."""


class Blobs:
    """Content-addressed storage: `root/ab/ab12…`, written once and never changed.

    Any number of processes may use one location at the same time. A file gets its final name only
    once its bytes are on the disk. An object gets its name only once the store has all of its
    bytes.
    """

    def __init__(self, root: "Path | UPath") -> None:
        self.root = root

    def put(self, data: bytes) -> str:
        """Store `data`, durable against power loss. Return its SHA-256 in hex.

        Raises:
            JournalError: the disk or the store rejects the write.
        """
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        try:
            if not isinstance(path, Path):
                put_object(path, data)  # writing again costs less than checking for it
            elif not path.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, data)
                # A power loss must not remove the name of the file or of a new folder.
                for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
                    descriptor = os.open(folder, os.O_RDONLY)
                    try:
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)
        except refusals() as error:
            raise JournalError(f"cannot keep {len(data)} bytes: {reason(error)}") from error
        return digest

    def get(self, digest: str) -> bytes:
        """Return the bytes stored under `digest`.

        Raises:
            JournalError: nothing is stored under it, it cannot be read, or its bytes have changed.
        """
        path = self._path(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise JournalError(f"{path} is missing", retryable=False) from error
        except refusals() as error:
            raise JournalError(f"{path} cannot be read: {reason(error)}") from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise JournalError(f"{path} is damaged: its SHA-256 does not match", retryable=False)
        return data

    def has(self, digest: str) -> bool:
        """Return True if something is stored under `digest`.

        Raises:
            one of `agent.stores.refusals()`: the answer is unknown.
        """
        return self._path(digest).exists()

    def _path(self, digest: str) -> "Path | UPath":
        return self.root / digest[:2] / digest


class Bodies:
    """Packs and unpacks payloads. Large payloads go to `blobs`, if given."""

    def __init__(self, blobs: Blobs | None) -> None:
        self._blobs = blobs

    def pack(self, body: bytes) -> bytes:
        """Return the stored form. A blob is on the disk before this returns."""
        if len(body) <= COMPRESS_ABOVE:
            return bytes([PLAIN]) + body
        # The fastest level: a step of 20 kB has a millisecond in all.
        packed = bytes([COMPRESSED]) + zlib.compress(body, 1)
        if self._blobs is None or len(body) <= BLOB_ABOVE:
            return packed
        return bytes([BLOB]) + self._blobs.put(packed).encode("ascii")

    def unpack(self, packed: bytes) -> bytes:
        """Return the payload that was packed.

        Raises:
            JournalError: the payload is in blobs that are unavailable or damaged.
        """
        encoding, content = packed[0], packed[1:]
        if encoding == PLAIN:
            return content
        if encoding == COMPRESSED:
            return zlib.decompress(content)
        if self._blobs is None:
            raise JournalError(
                "a step's body is in content-addressed storage, and none is configured",
                retryable=False,
            )
        return self.unpack(self._blobs.get(content.decode("ascii")))
