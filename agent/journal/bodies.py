"""How requests and results lie in the database: a byte that says how, then the content."""

import zlib

from agent.errors import JournalError
from agent.journal.blobs import Blobs

PLAIN, COMPRESSED, BLOB = 0, 1, 2

COMPRESS_ABOVE = 1024
BLOB_ABOVE = 256 * 1024
"""Sizes before compression, bytes."""


class Bodies:
    """Packs and unpacks; what is large goes to `blobs` where there are any."""

    def __init__(self, blobs: Blobs | None) -> None:
        self._blobs = blobs

    def pack(self, body: bytes) -> bytes:
        """The form for the database; a blob is on the disk when this returns."""
        if len(body) <= COMPRESS_ABOVE:
            return bytes([PLAIN]) + body
        # The fastest level: a step of 20 kB may take a millisecond altogether.
        packed = bytes([COMPRESSED]) + zlib.compress(body, 1)
        if self._blobs is None or len(body) <= BLOB_ABOVE:
            return packed
        return bytes([BLOB]) + self._blobs.put(packed).encode("ascii")

    def unpack(self, packed: bytes) -> bytes:
        """The body that was packed.

        Raises:
            JournalError: it lies in blobs that are not at hand, or are damaged.
        """
        how, content = packed[0], packed[1:]
        if how == PLAIN:
            return content
        if how == COMPRESSED:
            return zlib.decompress(content)
        if self._blobs is None:
            raise JournalError(
                "a step's body lies in content-addressed storage, and none was named",
                retryable=False,
            )
        return self.unpack(self._blobs.get(content.decode("ascii")))
