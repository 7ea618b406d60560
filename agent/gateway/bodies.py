"""The bodies of requests, bounded before they are read.

A program may ask as often and as much as it likes, and never takes more of this process than its
room: what does not fit waits, unread.
"""

import asyncio
import json
from collections import deque
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from agent.errors import RequestRefused
from agent.models.requests import Dialect, check_depth

LARGEST = 32 * 2**20
"""Bytes of the largest body, which is that of the providers."""

MOST_PARTS = 1_000_000
"""Values of the largest body. A conversation that fills the largest window has half of that."""

_ROOM = 2 * LARGEST
"""Bytes of all bodies of a program that are read or answered at one time."""

_PART = 100
"""Bytes of memory that a value takes besides its text."""


class InvalidBody(Exception):
    """A body is no JSON object. The message is one line."""

    status = 400


class TooLarge(InvalidBody):
    """A body is larger than any provider takes."""

    status = 413


class Encoded(InvalidBody):
    """A body is compressed, so that its size is unknown."""

    status = 415


@dataclass(frozen=True)
class Held:
    """A body, and the bytes of the room that it takes until they are given back."""

    body: dict[str, Any]
    size: int


class Room:
    """The bytes that the requests of one program may hold at one time."""

    def __init__(self, size: int = _ROOM) -> None:
        self._size = self._free = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def read(self, request: Request) -> Held:
        """Return the body of a request, once there is room for it.

        Raises:
            InvalidBody: it is no JSON object, or too large, or compressed.
            ClientDisconnect: the program has hung up.
        """
        size = _declared(request)
        await self._take(size)
        try:
            whole = await _bytes(request, size)
            parts = _parts(whole)
            weight = min(len(whole) + _PART * parts, self._size)
            # What is in memory already is not waited for.
            self._free += size - weight
            size = weight
            body = _parsed(whole, parts)
        except BaseException:
            self.give(size)
            raise
        self.give(0)
        return Held(body, size)

    async def _take(self, size: int) -> None:
        if self._free < size or self._waiting:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self.give(size)
                raise
        else:
            self._free -= size

    def give(self, size: int) -> None:
        """Give bytes back, and let those read who waited for them, in their order."""
        self._free += size
        while self._waiting:
            wanted, turn = self._waiting[0]
            if not turn.done():
                if self._free < wanted:
                    return
                self._free -= wanted
                turn.set_result(None)
            self._waiting.popleft()


def _declared(request: Request) -> int:
    """Return the most bytes that a body will have."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise Encoded(f"send the request without content-encoding {encoding[:40]}")
    length = request.headers.get("content-length")
    if length is None:
        return LARGEST
    if not length.isascii() or not length.isdigit() or int(length[:20]) > LARGEST:
        raise TooLarge(f"a request has at most {LARGEST} bytes")
    return int(length)


async def _bytes(request: Request, most: int) -> bytes:
    whole = bytearray()
    async for chunk in request.stream():
        whole += chunk
        if len(whole) > most:
            raise TooLarge(f"a request has at most {most} bytes")
    return bytes(whole)


def _parts(whole: bytes) -> int:
    """Return a bound of the values in a JSON text, which take more memory than their text."""
    return sum(whole.count(mark) for mark in (b",", b"[", b"{"))


def _parsed(whole: bytes, parts: int) -> dict[str, Any]:
    if parts > MOST_PARTS:
        raise TooLarge(f"a request has at most {MOST_PARTS} values")
    try:
        body = json.loads(whole, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidBody(f"the request is not JSON: {error or 'nested too deeply'}") from None
    if not isinstance(body, dict):
        raise InvalidBody("the request is not JSON: not an object")
    try:
        check_depth(body)
    except RequestRefused as error:
        raise InvalidBody(str(error)) from None
    return body


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


NOT_RETRIED = {"x-should-retry": "false"}
"""A header by which the clients of both vendors do not repeat a request."""


def error_body(dialect: Dialect, message: str, code: str | None = None) -> dict[str, Any]:
    """Return an error that says that the request is invalid, which no client repeats."""
    kind = "invalid_request_error"
    if dialect == "messages":
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
