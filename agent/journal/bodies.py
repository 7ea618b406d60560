"""Storage format of requests and results: one byte for the encoding, then the content."""

import zlib

from agent.errors import JournalError
from agent.journal.blobs import Blobs

PLAIN, COMPRESSED, BLOB = 0, 1, 2

COMPRESS_ABOVE = 1024
BLOB_ABOVE = 256 * 1024
"""Sizes before compression, bytes."""


class Bodies:
    """Packs and unpacks payloads. Large payloads go to `blobs`, if given."""

    def __init__(self, blobs: Blobs | None) -> None:
        self._blobs = blobs

    def pack(self, body: bytes) -> bytes:
        """Return the stored form. A blob is on the disk before this returns."""
        if len(body) <= COMPRESS_ABOVE:
            return bytes([PLAIN]) + body
        # The fastest level: a step of 20 kB may take a millisecond in all.
        packed = bytes([COMPRESSED]) + zlib.compress(body, 1)
        if self._blobs is None or len(body) <= BLOB_ABOVE:
            return packed
        return bytes([BLOB]) + self._blobs.put(packed).encode("ascii")

    def unpack(self, packed: bytes) -> bytes:
        """Return the payload that was packed.

        Raises:
            JournalError: the payload is in blobs that are unavailable or damaged.
        """
        how, content = packed[0], packed[1:]
        if how == PLAIN:
            return content
        if how == COMPRESSED:
            return zlib.decompress(content)
        if self._blobs is None:
            raise JournalError(
                "a step's body is in content-addressed storage, and none is configured",
                retryable=False,
            )
        return self.unpack(self._blobs.get(content.decode("ascii")))
