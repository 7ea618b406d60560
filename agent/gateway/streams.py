"""Whole answers as the events that a streaming client of each dialect expects."""

import json
from collections.abc import Iterator
from typing import Any

from agent.models.requests import Dialect

Body = dict[str, Any]

PINGS: dict[Dialect, bytes] = {
    "chat": b": ping\n\n",
    "messages": b'event: ping\ndata: {"type": "ping"}\n\n',
    "responses": b": ping\n\n",
}
"""The events that keep a client waiting while the model answers."""


def events(dialect: Dialect, answer: Body) -> Iterator[bytes]:
    """Yield an answer as events."""
    match dialect:
        case "chat":
            yield from _chat(answer)
        case "messages":
            yield from (_event(name, content) for name, content in _messages(answer))
        case "responses":
            for number, (name, content) in enumerate(_responses(answer)):
                yield _event(name, {**content, "sequence_number": number})


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


def _data(content: Body) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode("utf-8", "replace")


def _event(name: str, content: Body) -> bytes:
    return f"event: {name}\n".encode() + _data({"type": name, **content})


def _chat(answer: Body) -> Iterator[bytes]:
    shared = {name: answer.get(name) for name in ("id", "created", "model")}
    shared["object"] = "chat.completion.chunk"
    for choice in answer.get("choices") or []:
        message = dict(choice.get("message") or {})
        calls = message.pop("tool_calls", None) or []
        delta = {name: each for name, each in message.items() if each is not None}
        if calls:
            delta["tool_calls"] = [{**call, "index": n} for n, call in enumerate(calls)]
        place = {"index": choice.get("index", 0)}
        yield _data({**shared, "choices": [{**place, "delta": delta, "finish_reason": None}]})
        reason = choice.get("finish_reason")
        yield _data({**shared, "choices": [{**place, "delta": {}, "finish_reason": reason}]})
    yield _data({**shared, "choices": [], "usage": answer.get("usage")})
    yield b"data: [DONE]\n\n"


def _messages(answer: Body) -> Iterator[tuple[str, Body]]:
    usage = answer.get("usage") or {}
    opening = {**answer, "content": [], "stop_reason": None, "stop_sequence": None}
    yield "message_start", {"message": {**opening, "usage": {**usage, "output_tokens": 0}}}
    for index, block in enumerate(answer.get("content") or []):
        empty, deltas = _opened(block)
        yield "content_block_start", {"index": index, "content_block": empty}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    reason = {name: answer.get(name) for name in ("stop_reason", "stop_sequence")}
    yield "message_delta", {"delta": reason, "usage": usage}
    yield "message_stop", {}


def _opened(block: Body) -> tuple[Body, list[Body]]:
    """Return a block of an answer as it is begun, and the deltas that complete it."""
    match block.get("type"):
        case "text":
            text = {"type": "text_delta", "text": block["text"]}
            cited = [
                {"type": "citations_delta", "citation": each}
                for each in block.get("citations") or []
            ]
            return {**block, "text": "", **({"citations": []} if cited else {})}, [text, *cited]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block.get("thinking", "")}
            signature = {"type": "signature_delta", "signature": block.get("signature", "")}
            return {**block, "thinking": "", "signature": ""}, [thought, signature]
        case "tool_use" | "server_tool_use":
            given = {"type": "input_json_delta", "partial_json": json.dumps(block.get("input"))}
            return {**block, "input": {}}, [given]
        case _:
            return block, []


def _responses(answer: Body) -> Iterator[tuple[str, Body]]:
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(answer.get("output") or []):
        at = {"output_index": index}
        yield "response.output_item.added", {**at, "item": _opened_item(item)}
        yield from _inside(item, {**at, "item_id": item.get("id")})
        yield "response.output_item.done", {**at, "item": item}
    yield f"response.{answer.get('status') or 'completed'}", {"response": answer}


def _opened_item(item: Body) -> Body:
    hollow = {"content": [], "summary": [], "arguments": "", "input": ""}
    begun = {name: hollow.get(name, each) for name, each in item.items()}
    return {**begun, "status": "in_progress"} if "status" in item else begun


def _inside(item: Body, at: Body) -> Iterator[tuple[str, Body]]:
    """Yield the events between the beginning and the end of an item."""
    if item.get("type") == "message":
        for index, part in enumerate(item.get("content") or []):
            here = {**at, "content_index": index}
            yield "response.content_part.added", {**here, "part": {**part, "text": ""}}
            yield "response.output_text.delta", {**here, "delta": part.get("text", "")}
            yield "response.output_text.done", {**here, "text": part.get("text", "")}
            yield "response.content_part.done", {**here, "part": part}
    if item.get("type") == "function_call":
        arguments = item.get("arguments", "")
        yield "response.function_call_arguments.delta", {**at, "delta": arguments}
        yield "response.function_call_arguments.done", {**at, "arguments": arguments}
    if item.get("type") == "custom_tool_call":
        yield "response.custom_tool_call_input.delta", {**at, "delta": item.get("input", "")}
        yield "response.custom_tool_call_input.done", {**at, "input": item.get("input", "")}
