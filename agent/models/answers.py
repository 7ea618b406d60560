"""The door of a provider's answers: any JSON becomes an answer of its dialect, or none.

What cannot be used is left out. An answer is paid, so no odd part of it may lose the rest.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agent.models.protocol import Message, Usage
from agent.models.requests import Dialect, chat
from agent.models.requests.parts import RedactedThinking, ThinkingBlock
from agent.models.requests.responses import InputItem
from agent.models.usage import ReportedUsage, read_usage

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

_SHOWN_CHARACTERS = 100
_TEXTS = ("text", "output_text")


class NoAnswer(Exception):
    """A response that a provider calls a success holds no answer."""


@dataclass(frozen=True)
class ProviderAnswer:
    """One answer of a provider."""

    body: Body
    """The answer in its dialect, with everything that can be used and no figures but the counts."""
    message: Message
    finish_reason: str | None
    """Why it ended, in the words of chat completions."""
    reported: ReportedUsage
    model: str | None
    """The name that the provider gives to its model."""


def read_answer(dialect: Dialect, body: Any) -> ProviderAnswer:
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


def _read(dialect: Dialect, body: Body) -> ProviderAnswer:
    holder = _HOLDER[dialect]
    parts = [part for part in body[holder] if isinstance(part, dict)]
    reported = read_usage(body.get("usage"), cache_is_beside=dialect == "messages")
    model = body.get("model")
    read = {"chat": _chat, "messages": _messages, "responses": _responses}[dialect]
    clean, message, reason = read(body, parts)
    return ProviderAnswer(
        {**clean, "usage": usage_block(dialect, reported.usage)},
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
    whole = {
        "id": _word(body.get("id")) or "answer",
        "object": "chat.completion",
        "created": _moment(body.get("created")),
        "model": _word(body.get("model")) or "",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    }
    return whole, message, reason


def _chat_message(given: Body) -> Message:
    message = {
        "role": "assistant",
        "content": _text(given.get("content")),
        **_valid_fields(given, _thoughts()),
    }
    calls = given.get("tool_calls")
    made = [
        _chat_call(call, number)
        for number, call in enumerate(calls if isinstance(calls, list) else [])
        if isinstance(call, dict)
    ]
    return {**message, "tool_calls": made} if made else message


def _chat_call(call: Body, number: int) -> Body:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    signed = _valid_fields(function, _signatures())
    made = _call(
        _word(call.get("id")) or f"call_{number}",
        _word(function.get("name")) or "",
        function.get("arguments"),
    )
    return {
        **made,
        "function": {**made["function"], **signed},
        **_valid_fields(call, _signatures()),
    }


def _messages(body: Body, blocks: list[Body]) -> tuple[Body, Message, str | None]:
    content = [
        block
        for number, each in enumerate(blocks)
        if (block := _message_block(each, number)) is not None
    ]
    texts = [block["text"] for block in content if block["type"] == "text"]
    uses = [block for block in content if block["type"] == "tool_use"]
    whole = {
        "id": _word(body.get("id")) or "answer",
        "type": "message",
        "role": "assistant",
        "model": _word(body.get("model")) or "",
        "content": content,
        "stop_reason": _word(body.get("stop_reason")),
        "stop_sequence": _word(body.get("stop_sequence")),
    }
    calls = [_call(use["id"], use["name"], use["input"]) for use in uses]
    return whole, _said(texts, calls), _reason(body.get("stop_reason"))


def _message_block(block: Body, number: int) -> Body | None:
    match block.get("type"):
        case "text":
            return {"type": "text", "text": _text(block.get("text")) or ""}
        case "tool_use":
            given = block.get("input")
            return {
                "type": "tool_use",
                "id": _word(block.get("id")) or f"call_{number}",
                "name": _word(block.get("name")) or "",
                "input": given if isinstance(given, dict) else {},
            }
        case "thinking" | "redacted_thinking":
            return _valid(block, ThinkingBlock | RedactedThinking)
    return None


def _responses(body: Body, items: list[Body]) -> tuple[Body, Message, str | None]:
    output = [
        item
        for number, each in enumerate(items)
        if (item := _response_item(each, number)) is not None
    ]
    texts = [
        part["text"]
        for item in output
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
    ]
    calls = [
        _call(
            _word(item.get("call_id")) or _word(item.get("id")) or f"call_{number}",
            _word(item.get("name")) or item["type"],
            item.get("arguments") or item.get("input") or item.get("action"),
        )
        for number, item in enumerate(output)
        if item["type"].endswith("_call")
    ]
    details = body.get("incomplete_details")
    whole = {
        "id": _word(body.get("id")) or "answer",
        "object": "response",
        "created_at": _moment(body.get("created_at")),
        "model": _word(body.get("model")) or "",
        "status": "incomplete" if body.get("status") == "incomplete" else "completed",
        "incomplete_details": details if isinstance(details, dict) else None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return whole, _said(texts, calls), _reason(whole["status"])


def _response_item(item: Body, number: int) -> Body | None:
    kind = item.get("type")
    own = {"id": _word(item.get("id")) or f"item_{number}", "status": "completed"}
    if kind == "message":
        parts = item.get("content")
        content = [
            {"type": "output_text", "text": _text(part.get("text")) or "", "annotations": []}
            for part in (parts if isinstance(parts, list) else [])
            if isinstance(part, dict) and part.get("type") in _TEXTS
        ]
        return {**own, "type": kind, "role": "assistant", "content": content}
    if kind == "function_call":
        return {
            **own,
            **_valid_fields(item, {"namespace": str}),
            "type": kind,
            "call_id": _word(item.get("call_id")) or f"call_{number}",
            "name": _word(item.get("name")) or "",
            "arguments": _arguments(item.get("arguments")),
        }
    return _valid({"summary": [], **item}, InputItem)


def _moment(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**53 else 0


@functools.cache
def _thoughts() -> Mapping[str, Any]:
    """Return the fields of an assistant message that a later request repeats, with their types."""
    names = ("refusal", "reasoning", "reasoning_content", "reasoning_details", "thinking_blocks")
    fields = chat.ChatAnswer.model_fields
    return {**{name: fields[name].annotation for name in names}, **_signatures()}


def _signatures() -> Mapping[str, Any]:
    return {"provider_specific_fields": chat.Signatures, "extra_content": chat.Google}


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _valid(value: Any, kind: Any) -> Body | None:
    """Return what a request may repeat of a value, or None if it has another type."""
    try:
        parsed = _adapter(kind).validate_python(value)
    except ValidationError:
        return None
    plain: Body = _adapter(kind).dump_python(
        parsed, mode="json", exclude_unset=True, exclude_none=True
    )
    return plain


def _valid_fields(given: Body, types: Mapping[str, Any]) -> Body:
    valid = {name: _valid(given[name], kind) for name, kind in types.items() if given.get(name)}
    return {name: value for name, value in valid.items() if value}


def _said(texts: list[str], calls: list[Body]) -> Message:
    message: Message = {"role": "assistant", "content": "\n".join(texts) or None}
    return {**message, "tool_calls": calls} if calls else message


def _call(call_id: str, name: str, given: Any) -> Body:
    function = {"name": name, "arguments": _arguments(given)}
    return {"id": call_id, "type": "function", "function": function}


def _arguments(given: Any) -> str:
    """Return arguments as text. Some servers give them as an object.

    A text that no parser survives is cut off, so that it counts as invalid JSON.
    """
    if not isinstance(given, str):
        return "{}" if given is None else json.dumps(given)
    try:
        json.loads(given)
    except json.JSONDecodeError:
        return given
    except (ValueError, RecursionError):  # a number too long, a nest too deep
        return given[:_SHOWN_CHARACTERS]
    return given


def _text(content: Any) -> str | None:
    """Return the text of content. Some servers give it in parts, and not each has a text."""
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


def usage_block(dialect: Dialect, usage: Usage) -> Body:
    """Return tokens in the form of a dialect. Clients read no answer without them, so what is
    unknown is 0 to them.
    """
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    given, made = usage.input_tokens or 0, usage.output_tokens or 0
    if dialect == "messages":
        return {
            "input_tokens": max(0, given - read - written),
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": made,
        }
    of_input, of_output = _COUNTS[dialect]
    return {
        of_input: given,
        of_output: made,
        "total_tokens": given + made,
        f"{of_input}_details": {"cached_tokens": read},
        f"{of_output}_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
    }


_COUNTS = {
    "chat": ("prompt_tokens", "completion_tokens"),
    "responses": ("input_tokens", "output_tokens"),
}


def _encodable(body: Body) -> Body:
    """Return a body without lone surrogates and endless numbers, which no JSON can carry."""
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        body = json.loads(text, parse_constant=lambda name: None)
    return body
