"""The door of a provider's answers: any JSON becomes an answer of its dialect, or none.

What cannot be used is left out. An answer is paid, so no odd part of it may lose the rest.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.models.protocol import Message
from agent.models.requests import Dialect
from agent.models.usage import Reported, read_usage

Body = dict[str, Any]

_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "completed": "stop",
    "incomplete": "length",
}
_HOLDER: dict[Dialect, str] = {"chat": "choices", "messages": "content", "responses": "output"}
"""The field that holds the answer."""

_TEXTS = ("text", "output_text")


class NoAnswer(Exception):
    """A response that a provider calls a success holds no answer."""


@dataclass(frozen=True)
class Answer:
    """One answer of a provider."""

    body: Body
    """The answer in its dialect, with everything that can be used and no figures but the counts."""
    message: Message
    finish_reason: str | None
    """Why it ended, in the words of chat completions."""
    reported: Reported
    model: str | None
    """The name that the provider gives to its model."""


def read_answer(dialect: Dialect, body: Any) -> Answer:
    """Return an answer.

    Raises:
        NoAnswer: the body is none.
    """
    holder = _HOLDER[dialect]
    if not isinstance(body, dict) or not isinstance(body.get(holder), list):
        raise NoAnswer(f"the answer has no {holder}")
    try:
        return _read(dialect, _encodable(body))
    except RecursionError:
        raise NoAnswer("the answer is nested too deeply") from None


def dialect_of(body: Any) -> Dialect | None:
    """Return the dialect in which a body is an answer, or None."""
    if not isinstance(body, dict):
        return None
    return next((each for each, name in _HOLDER.items() if isinstance(body.get(name), list)), None)


def _read(dialect: Dialect, body: Body) -> Answer:
    holder = _HOLDER[dialect]
    parts = [part for part in body[holder] if isinstance(part, dict)]
    reported = read_usage(body.get("usage"), cache_is_beside=dialect == "messages")
    model = body.get("model")
    read = {"chat": _chat, "messages": _messages, "responses": _responses}[dialect]
    clean, message, reason = read(body, parts)
    return Answer(
        {**clean, "usage": _usage(dialect, body.get("usage"))},
        message,
        reason,
        reported,
        model if isinstance(model, str) and model else None,
    )


def _chat(body: Body, choices: list[Body]) -> tuple[Body, Message, str | None]:
    if not choices:
        raise NoAnswer("the answer has no choices")
    choice = choices[0]  # the request has asked for one
    given = choice.get("message")
    message = _chat_message(given if isinstance(given, dict) else {})
    reason = _word(choice.get("finish_reason"))
    clean = {**choice, "index": 0, "message": message, "finish_reason": reason}
    return {**body, "choices": [clean]}, message, reason


def _chat_message(given: Body) -> Message:
    message = {**given, "role": "assistant", "content": _text(given.get("content"))}
    calls = given.get("tool_calls")
    message.pop("tool_calls", None)
    made = [
        _chat_call(call, number)
        for number, call in enumerate(calls if isinstance(calls, list) else [])
        if isinstance(call, dict)
    ]
    return {**message, "tool_calls": made} if made else message


def _chat_call(call: Body, number: int) -> Body:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    return {
        **call,
        "id": _word(call.get("id")) or f"call_{number}",
        "type": "function",
        "function": {
            **function,
            "name": _word(function.get("name")) or "",
            "arguments": _arguments(function.get("arguments")),
        },
    }


def _messages(body: Body, blocks: list[Body]) -> tuple[Body, Message, str | None]:
    blocks = [block for block in blocks if isinstance(block.get("type"), str)]
    texts = [_text(block.get("text")) or "" for block in blocks if block["type"] == "text"]
    uses = [block for block in blocks if block["type"] == "tool_use"]
    calls = [
        _call(
            _word(use.get("id")) or f"call_{number}",
            _word(use.get("name")) or "",
            use.get("input"),
        )
        for number, use in enumerate(uses)
    ]
    return {**body, "content": blocks}, _said(texts, calls), _reason(body.get("stop_reason"))


def _responses(body: Body, items: list[Body]) -> tuple[Body, Message, str | None]:
    items = [item for item in items if isinstance(item.get("type"), str)]
    contents = [item["content"] for item in items if isinstance(item.get("content"), list)]
    parts = [part for content in contents for part in content if isinstance(part, dict)]
    texts = [_text(part.get("text")) or "" for part in parts if part.get("type") in _TEXTS]
    calls = [
        _call(
            _word(item.get("call_id")) or _word(item.get("id")) or f"call_{number}",
            _word(item.get("name")) or item["type"],
            item.get("arguments") or item.get("input") or item.get("action"),
        )
        for number, item in enumerate(items)
        if item["type"].endswith("_call")
    ]
    return {**body, "output": items}, _said(texts, calls), _reason(body.get("status"))


def _said(texts: list[str], calls: list[Body]) -> Message:
    message: Message = {"role": "assistant", "content": "\n".join(texts) or None}
    return {**message, "tool_calls": calls} if calls else message


def _call(call_id: str, name: str, given: Any) -> Body:
    function = {"name": name, "arguments": _arguments(given)}
    return {"id": call_id, "type": "function", "function": function}


def _arguments(given: Any) -> str:
    """Return arguments as text. Some servers give them as an object."""
    if isinstance(given, str):
        return given
    return "{}" if given is None else json.dumps(given)


def _text(content: Any) -> str | None:
    """Return content as a text. Some servers give it in parts, of which others are no text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return None
    texts = [
        each if isinstance(each, str) else each.get("text")
        for each in content
        if isinstance(each, str | Mapping)
    ]
    return "".join(text for text in texts if isinstance(text, str)) or None


def _reason(value: Any) -> str | None:
    reason = _word(value)
    return _FINISH_REASONS.get(reason or "", reason)


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


_NEEDED: dict[Dialect, tuple[str, ...]] = {
    "chat": ("prompt_tokens", "completion_tokens", "total_tokens"),
    "messages": ("input_tokens", "output_tokens"),
    "responses": ("input_tokens", "output_tokens", "total_tokens"),
}
"""Counts without which clients do not read a usage block."""


def _usage(dialect: Dialect, block: Any) -> Any:
    """Return a usage block that a client can read: every figure is a count.

    A block that is left out stays so where the dialect allows it.
    """
    if not isinstance(block, dict) and dialect != "messages":
        return None
    clean = _usage_block(block) if isinstance(block, dict) else {}
    counts = {name: each for name in _NEEDED[dialect] if type(each := clean.get(name)) is int}
    return {**clean, **dict.fromkeys(_NEEDED[dialect], 0), **counts}


def _usage_block(block: Body) -> Body:
    return {name: each for name, value in block.items() if (each := _figure(value)) is not None}


def _figure(value: Any) -> Any:
    if isinstance(value, dict):
        return _usage_block(value)
    if isinstance(value, str | bool) or (isinstance(value, int) and 0 <= value <= 10**9):
        return value
    return None


def _encodable(body: Body) -> Body:
    """Return a body without lone surrogates and endless numbers, which no JSON can carry."""
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        body = json.loads(text, parse_constant=lambda name: None)
    return body
