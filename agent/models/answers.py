"""Validates the answers of a provider: any JSON becomes an answer of its dialect, or none.

Unusable parts are left out. The answer has been paid for, so an odd part must not lose the rest.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agent.models.protocol import Message
from agent.models.requests import Dialect, chat
from agent.models.requests.gemini import ContentPart
from agent.models.requests.parts import RedactedThinking, ThinkingBlock
from agent.models.requests.responses import InputItem
from agent.models.usage import ReportedUsage, google_usage, read_usage, usage_block

Body = dict[str, Any]

_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "completed": "stop",
    "incomplete": "length",
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
}
_HOLDER: dict[Dialect, str] = {
    "chat": "choices",
    "messages": "content",
    "responses": "output",
    "gemini": "candidates",
}
"""The field that holds the answer."""

_USAGE: dict[Dialect, str] = {"gemini": "usageMetadata"}
"""The field that holds the tokens, where it is not `usage`."""

_SHOWN_CHARACTERS = 100


class NoAnswer(Exception):
    """A successful response of a provider does not contain an answer."""


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
        NoAnswer: the body does not contain one.
    """
    holder = _HOLDER[dialect]
    if dialect == "gemini" and isinstance(body, dict) and body.get("promptFeedback"):
        body = {holder: [], **body}  # a blocked prompt has no candidates
    if not isinstance(body, dict) or not isinstance(body.get(holder), list):
        raise NoAnswer(f"the answer has no {holder}")
    try:
        return _read(dialect, body)
    except RecursionError:
        raise NoAnswer("the answer is nested too deeply") from None


def dialect_of(body: Any) -> Dialect | None:
    """Return the dialect in which a body is an answer, or None.

    Google's is not among them. LiteLLM reads its figures well, and more of its fields than we do.
    """
    if not isinstance(body, dict):
        return None
    holders = [each for each in _HOLDER.items() if each[0] != "gemini"]
    return next((dialect for dialect, name in holders if isinstance(body.get(name), list)), None)


def _read(dialect: Dialect, body: Body) -> ProviderAnswer:
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:  # lone surrogates and endless numbers, which JSON cannot represent
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        body = json.loads(text, parse_constant=lambda name: None)
    parts = [part for part in body[_HOLDER[dialect]] if isinstance(part, dict)]
    usage = _USAGE.get(dialect, "usage")
    block = google_usage(body.get(usage)) if dialect == "gemini" else body.get(usage)
    reported = read_usage(block, excludes_cache=dialect == "messages")
    model = body.get("modelVersion" if dialect == "gemini" else "model")
    readers = {
        "chat": _read_chat,
        "messages": _read_messages,
        "responses": _read_responses,
        "gemini": _read_gemini,
    }
    clean, message, reason = readers[dialect](body, parts)
    return ProviderAnswer(
        {**clean, usage: usage_block(dialect, reported.usage)},
        message,
        reason,
        reported,
        model if isinstance(model, str) and model else None,
    )


def _read_chat(body: Body, choices: list[Body]) -> tuple[Body, Message, str | None]:
    if not choices:
        raise NoAnswer("the answer has no choices")
    choice = choices[0]  # the request allows only one
    answer = choice.get("message")
    if not isinstance(answer, dict):
        answer = {}
    message = {
        "role": "assistant",
        "content": _text(answer.get("content")),
        **_valid_fields(answer, _thoughts()),
    }
    calls = answer.get("tool_calls")
    calls = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if calls:
        message["tool_calls"] = [_read_chat_call(call, n) for n, call in enumerate(calls)]
    reason = _word(choice.get("finish_reason"))
    whole = {
        "id": _word(body.get("id")) or "answer",
        "object": "chat.completion",
        "created": _moment(body.get("created")),
        "model": _word(body.get("model")) or "",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    }
    return whole, message, reason


def _read_chat_call(call: Body, number: int) -> Body:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    clean = _call(
        _word(call.get("id")) or f"call_{number}",
        _word(function.get("name")) or "",
        function.get("arguments"),
    )
    clean["function"] |= _valid_fields(function, _SIGNATURES)
    return clean | _valid_fields(call, _SIGNATURES)


def _read_messages(body: Body, blocks: list[Body]) -> tuple[Body, Message, str | None]:
    content = [
        clean
        for number, block in enumerate(blocks)
        if (clean := _read_block(block, number)) is not None
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
    return whole, _message(texts, calls), _finish_reason(body.get("stop_reason"))


def _read_block(block: Body, number: int) -> Body | None:
    match block.get("type"):
        case "text":
            return {"type": "text", "text": _text(block.get("text")) or ""}
        case "tool_use":
            arguments = block.get("input")
            return {
                "type": "tool_use",
                "id": _word(block.get("id")) or f"call_{number}",
                "name": _word(block.get("name")) or "",
                "input": arguments if isinstance(arguments, dict) else {},
            }
        case "thinking" | "redacted_thinking":
            return _valid(block, ThinkingBlock | RedactedThinking)
    return None


def _read_responses(body: Body, items: list[Body]) -> tuple[Body, Message, str | None]:
    output = [
        clean
        for number, item in enumerate(items)
        if (clean := _read_item(item, number)) is not None
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
    return whole, _message(texts, calls), _finish_reason(whole["status"])


def _read_item(item: Body, number: int) -> Body | None:
    kind = item.get("type")
    shared = {"id": _word(item.get("id")) or f"item_{number}", "status": "completed"}
    if kind == "message":
        parts = item.get("content")
        content = [
            {"type": "output_text", "text": _text(part.get("text")) or "", "annotations": []}
            for part in (parts if isinstance(parts, list) else [])
            if isinstance(part, dict) and part.get("type") in ("text", "output_text")
        ]
        return {**shared, "type": kind, "role": "assistant", "content": content}
    if kind == "function_call":
        return {
            **shared,
            **_valid_fields(item, {"namespace": str}),
            "type": kind,
            "call_id": _word(item.get("call_id")) or f"call_{number}",
            "name": _word(item.get("name")) or "",
            "arguments": _arguments(item.get("arguments")),
        }
    return _valid({"summary": [], **item}, InputItem)


def _read_gemini(body: Body, candidates: list[Body]) -> tuple[Body, Message, str | None]:
    candidate = candidates[0] if candidates else {}
    content = candidate.get("content")
    given = content.get("parts") if isinstance(content, dict) else None
    parts = [
        clean
        for part in (given if isinstance(given, list) else [])
        if (clean := _valid(part, ContentPart)) is not None
    ]
    texts = [part["text"] for part in parts if part.get("text") and not part.get("thought")]
    calls = []
    for number, part in enumerate(parts):
        if call := part.get("functionCall"):
            calls.append(_call(call.get("id") or f"call_{number}", call["name"], call.get("args")))
            if signature := part.get("thoughtSignature"):
                calls[-1]["provider_specific_fields"] = {"thought_signature": signature}
    feedback = body.get("promptFeedback")
    reason = _word(candidate.get("finishReason"))
    clean_candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    whole = {
        "candidates": [{**clean_candidate, "finishReason": reason or "STOP"}] if candidates else [],
        "modelVersion": _word(body.get("modelVersion")) or "",
        "responseId": _word(body.get("responseId")) or "answer",
        **({"promptFeedback": feedback} if isinstance(feedback, dict) else {}),
    }
    if not candidates:
        return whole, _message([], []), "content_filter"
    message = _message(["".join(texts)] if texts else [], calls)
    return whole, message, "tool_calls" if calls else _finish_reason(reason)


def _moment(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**53 else 0


@functools.cache
def _thoughts() -> Mapping[str, Any]:
    """Return the fields of an assistant message that a later request repeats, with their types."""
    names = ("refusal", "reasoning", "reasoning_content", "reasoning_details", "thinking_blocks")
    fields = chat.ChatAnswer.model_fields
    return {**{name: fields[name].annotation for name in names}, **_SIGNATURES}


_SIGNATURES = {"provider_specific_fields": chat.Signatures, "extra_content": chat.Google}


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _valid(value: Any, kind: Any) -> Body | None:
    """Return the part of a value that a request can repeat, or None if it has another type."""
    try:
        parsed = _adapter(kind).validate_python(value)
    except ValidationError:
        return None
    plain: Body = _adapter(kind).dump_python(
        parsed, mode="json", by_alias=True, exclude_unset=True, exclude_none=True
    )
    return plain


def _valid_fields(fields: Body, types: Mapping[str, Any]) -> Body:
    valid = {name: _valid(fields[name], kind) for name, kind in types.items() if fields.get(name)}
    return {name: value for name, value in valid.items() if value}


def _message(texts: list[str], calls: list[Body]) -> Message:
    message: Message = {"role": "assistant", "content": "\n".join(texts) or None}
    return {**message, "tool_calls": calls} if calls else message


def _call(call_id: str, name: str, arguments: Any) -> Body:
    function = {"name": name, "arguments": _arguments(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def _arguments(arguments: Any) -> str:
    """Return arguments as text. Some servers send an object.

    A text that would crash a parser is cut off, so that it counts as invalid JSON.
    """
    if not isinstance(arguments, str):
        return "{}" if arguments is None else json.dumps(arguments)
    try:
        json.loads(arguments)
    except json.JSONDecodeError:
        return arguments
    except (ValueError, RecursionError):  # a number too long, a nest too deep
        return arguments[:_SHOWN_CHARACTERS]
    return arguments


def _text(content: Any) -> str | None:
    """Return the text of content. Some servers send it in parts, and not each has a text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return None
    texts = [
        part if isinstance(part, str) else part.get("text")
        for part in content
        if isinstance(part, str | Mapping)
    ]
    return "".join(text for text in texts if isinstance(text, str)) or None


def _finish_reason(value: Any) -> str | None:
    reason = _word(value)
    return _FINISH_REASONS.get(reason or "", reason)


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
