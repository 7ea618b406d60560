"""The framing of a Docker stream without a terminal."""

import asyncio
import struct


class Frames:
    """The output inside Docker's framing: 4 bytes of stream number, 4 of length, payload."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._left = 0

    async def read(self, limit: int) -> bytes:
        try:
            while not self._left:
                (self._left,) = struct.unpack(">4xL", await self._reader.readexactly(8))
        except asyncio.IncompleteReadError:
            return b""
        data = await self._reader.read(min(limit, self._left))
        self._left -= len(data)
        return data
