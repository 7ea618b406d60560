"""The bodies of requests, bounded before they are read, and answers as events and errors.

However many requests a program sends, it never takes more memory of this process than its room.
Requests that do not fit wait unread.
"""

import asyncio
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from agent.errors import RequestRefused
from agent.models.requests import Dialect, check_depth

LARGEST = 32 * 2**20
"""Bytes of the largest body that providers accept."""

MOST_PARTS = 1_000_000
"""Values of the largest body, twice as many as in a conversation that fills the largest window."""

_ROOM = 2 * LARGEST
"""Bytes of all bodies of a program that are read or answered at the same time."""

_PART = 100
"""Bytes of memory that a value takes besides its text."""


class InvalidBody(Exception):
    """A body is not a JSON object, too large, or compressed. The message is one line."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class HeldBody:
    """A body, and the bytes of the room that it takes until they are returned."""

    body: dict[str, Any]
    size: int


class Room:
    """The bytes that the requests of one program may hold at one time."""

    def __init__(self, size: int = _ROOM) -> None:
        self._size = self._free = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def read(self, request: Request) -> HeldBody:
        """Return the body of a request, once there is room for it.

        Raises:
            InvalidBody: it is not a JSON object, or too large, or compressed.
            ClientDisconnect: the program has hung up.
        """
        size = _get_declared_size(request)
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
        try:
            content = bytearray()
            async for chunk in request.stream():
                content += chunk
                if len(content) > size:
                    raise InvalidBody(f"a request has at most {size} bytes", 413)
            # A bound of the values, which take more memory than their text.
            parts = sum(content.count(mark) for mark in (b",", b"[", b"{"))
            weight = min(len(content) + _PART * parts, self._size)
            # The body is in memory already, so its weight does not wait for room.
            self._free += size - weight
            size = weight
            if parts > MOST_PARTS:
                raise InvalidBody(f"a request has at most {MOST_PARTS} values", 413)
            body = _parse(bytes(content))
        except BaseException:
            self.give(size)
            raise
        self.give(0)
        return HeldBody(body, size)

    def give(self, size: int) -> None:
        """Return bytes, and let the waiting requests read in their order."""
        self._free += size
        while self._waiting:
            wanted, turn = self._waiting[0]
            if not turn.done():
                if self._free < wanted:
                    return
                self._free -= wanted
                turn.set_result(None)
            self._waiting.popleft()


def _get_declared_size(request: Request) -> int:
    """Return the most bytes that a body will have."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise InvalidBody(f"send the request without content-encoding {encoding[:40]}", 415)
    length = request.headers.get("content-length")
    if length is None:
        return LARGEST
    if not length.isascii() or not length.isdigit() or int(length[:20]) > LARGEST:
        raise InvalidBody(f"a request has at most {LARGEST} bytes", 413)
    return int(length)


def _parse(content: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a number")

    try:
        body = json.loads(content, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidBody(f"the request is not JSON: {error or 'nested too deeply'}") from None
    if not isinstance(body, dict):
        raise InvalidBody("the request is not JSON: not an object")
    try:
        check_depth(body)
    except RequestRefused as error:
        raise InvalidBody(str(error)) from None
    return body


NOT_RETRIED = {"x-should-retry": "false"}
"""Tells the clients of both vendors not to repeat a request."""


def error_body(dialect: Dialect, message: str, code: str | None = None) -> dict[str, Any]:
    """Return an error for an invalid request, which no client repeats."""
    kind = "invalid_request_error"
    if dialect == "messages":
        return {"type": "error", "error": {"type": kind, "message": message}}
    if dialect == "gemini":
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


Body = dict[str, Any]

PINGS: dict[Dialect, bytes] = {
    "chat": b": ping\n\n",
    "messages": b'event: ping\ndata: {"type": "ping"}\n\n',
    "responses": b": ping\n\n",
    "gemini": b"\n",  # Google's client for JavaScript waits for ever after a comment
}
"""The events that keep a client waiting while the model answers."""


def events(dialect: Dialect, answer: Body) -> Iterator[bytes]:
    """Yield an answer as events."""
    match dialect:
        case "chat":
            yield from _chat_events(answer)
        case "messages":
            yield from (_event(name, content) for name, content in _messages_events(answer))
        case "responses":
            for number, (name, content) in enumerate(_responses_events(answer)):
                yield _event(name, {**content, "sequence_number": number})
        case "gemini":
            yield _data(answer)


def error_event(dialect: Dialect, error: Body) -> bytes:
    """Return an error as the last event of a stream."""
    match dialect:
        case "chat":
            return _data(error)
        case "messages":
            return _event("error", error)
        case "responses":
            failed = {"id": "resp_failed", "object": "response", "status": "failed", "output": []}
            code = error["error"].get("code") or "invalid_prompt"
            reason = {"code": code, "message": error["error"]["message"]}
            content = {"response": {**failed, "error": reason}, "sequence_number": 0}
            return _event("response.failed", content)
        case "gemini":  # its clients look for an error outside of events
            return json.dumps(error).encode("utf-8", "replace")


def _data(content: Body) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode("utf-8", "replace")


def _event(name: str, content: Body) -> bytes:
    return f"event: {name}\n".encode() + _data({"type": name, **content})


def _chat_events(answer: Body) -> Iterator[bytes]:
    shared = {name: answer.get(name) for name in ("id", "created", "model")}
    shared["object"] = "chat.completion.chunk"
    for choice in answer.get("choices") or []:
        message = dict(choice.get("message") or {})
        calls = message.pop("tool_calls", None) or []
        delta = {name: value for name, value in message.items() if value is not None}
        if calls:
            delta["tool_calls"] = [{**call, "index": n} for n, call in enumerate(calls)]
        place = {"index": choice.get("index", 0)}
        yield _data({**shared, "choices": [{**place, "delta": delta, "finish_reason": None}]})
        reason = choice.get("finish_reason")
        yield _data({**shared, "choices": [{**place, "delta": {}, "finish_reason": reason}]})
    yield _data({**shared, "choices": [], "usage": answer.get("usage")})
    yield b"data: [DONE]\n\n"


def _messages_events(answer: Body) -> Iterator[tuple[str, Body]]:
    usage = answer.get("usage") or {}
    opening = {**answer, "content": [], "stop_reason": None, "stop_sequence": None}
    yield "message_start", {"message": {**opening, "usage": {**usage, "output_tokens": 0}}}
    for index, block in enumerate(answer.get("content") or []):
        empty, deltas = _split_block(block)
        yield "content_block_start", {"index": index, "content_block": empty}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    reason = {name: answer.get(name) for name in ("stop_reason", "stop_sequence")}
    yield "message_delta", {"delta": reason, "usage": usage}
    yield "message_stop", {}


def _split_block(block: Body) -> tuple[Body, list[Body]]:
    """Return a block of an answer without its content, and the deltas that complete it."""
    match block.get("type"):
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block.get("thinking", "")}
            signature = {"type": "signature_delta", "signature": block.get("signature", "")}
            return {**block, "thinking": "", "signature": ""}, [thought, signature]
        case "tool_use":
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block.get("input"))}
            return {**block, "input": {}}, [delta]
        case _:
            return block, []


def _responses_events(answer: Body) -> Iterator[tuple[str, Body]]:
    start = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": start}
    yield "response.in_progress", {"response": start}
    for index, item in enumerate(answer.get("output") or []):
        at = {"output_index": index}
        empty = {
            "content": [],
            "summary": [],
            "arguments": "",
            "input": "",
            "status": "in_progress",
        }
        first = {name: empty.get(name, value) for name, value in item.items()}
        yield "response.output_item.added", {**at, "item": first}
        yield from _item_events(item, {**at, "item_id": item.get("id")})
        yield "response.output_item.done", {**at, "item": item}
    yield f"response.{answer.get('status') or 'completed'}", {"response": answer}


def _item_events(item: Body, at: Body) -> Iterator[tuple[str, Body]]:
    """Yield the events between the start and the end of an item."""
    if item.get("type") == "message":
        for index, part in enumerate(item.get("content") or []):
            place = {**at, "content_index": index}
            yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
            yield "response.output_text.delta", {**place, "delta": part.get("text", "")}
            yield "response.output_text.done", {**place, "text": part.get("text", "")}
            yield "response.content_part.done", {**place, "part": part}
    if item.get("type") == "function_call":
        arguments = item.get("arguments", "")
        yield "response.function_call_arguments.delta", {**at, "delta": arguments}
        yield "response.function_call_arguments.done", {**at, "arguments": arguments}
    if item.get("type") == "custom_tool_call":
        yield "response.custom_tool_call_input.delta", {**at, "delta": item.get("input", "")}
        yield "response.custom_tool_call_input.done", {**at, "input": item.get("input", "")}
