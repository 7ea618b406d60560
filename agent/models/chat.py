"""Chat messages: the parts that are sent back to the provider, and estimates of their size.

A model can write invalid Unicode, and ids that are missing, not strings, or used twice. The
conversation is recorded unchanged, so that recorded steps keep their digests, and corrected only
when it is sent.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent.models.protocol import Message, ModelRequest, Usage

# Besides role, content and tool calls: fields that a provider needs again to continue from its own
# reasoning.
_CONTINUATION = ("reasoning_content", "reasoning_details", "thinking_blocks", "reasoning_items")

CHARS_PER_TOKEN = 4


def essential(message: Mapping[str, Any]) -> Message:
    """Return an assistant message reduced to the parts that the next request must repeat."""
    reduced: Message = {"role": "assistant", "content": message.get("content")}
    if calls := message.get("tool_calls"):
        if isinstance(calls, list):  # anything else stays as the model wrote it
            calls = [_without_empty(call) if isinstance(call, Mapping) else call for call in calls]
        reduced["tool_calls"] = calls
    for name in _CONTINUATION:
        if message.get(name):
            reduced[name] = message[name]
    fields = message.get("provider_specific_fields")
    if isinstance(fields, Mapping) and (filled := _without_empty(fields)):
        reduced["provider_specific_fields"] = filled
    return reduced


def tool_call(name: str, arguments: str, *, call_id: str, content: str | None = None) -> Message:
    """Return an assistant message that calls one tool, with `arguments` as JSON."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": content, "tool_calls": [call]}


def bash_call(command: str, *, call_id: str, content: str | None = None) -> Message:
    """Return an assistant message that runs a command through the `bash` tool."""
    arguments = json.dumps({"command": command})
    return tool_call("bash", arguments, call_id=call_id, content=content)


def size_of(request: ModelRequest) -> int:
    """Estimate the tokens of a prompt: its messages, and the tools that it offers."""
    offered = tokens([{"content": request.tools}]) if request.tools else 0
    return offered + tokens(request.messages)


def estimate_usage(usage: Usage, request: ModelRequest, message: Message) -> Usage:
    """Return a usage with estimates in place of an unknown size of the prompt or the output."""
    prompt, output = usage.input_tokens, usage.output_tokens
    return replace(
        usage,
        input_tokens=size_of(request) if prompt is None else prompt,
        output_tokens=tokens([message]) if output is None else output,
    )


def tokens(messages: Iterable[Mapping[str, Any]]) -> int:
    """Estimate the tokens of messages without a tokenizer: one per four characters."""
    characters = 0
    for message in messages:
        content = message.get("content") or ""
        characters += len(content if isinstance(content, str) else json.dumps(content))
        if calls := message.get("tool_calls"):
            characters += len(json.dumps(calls))
    return characters // CHARS_PER_TOKEN


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


# A pair of escapes is a character. A lone one is invalid.
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def sendable(request: ModelRequest) -> list[Message]:
    """Return messages whose texts can be encoded and whose calls have unique ids."""
    messages = request.messages
    try:
        request.text.encode()
        is_encodable = _SURROGATE_ESCAPE.search(request.text) is None
    except UnicodeEncodeError:
        is_encodable = False
    if not is_encodable:
        return _with_ids(_encodable(messages))
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    ids = {call.get("id") for call in calls if _is_id(call.get("id"))}
    return list(messages) if len(ids) == len(calls) else _with_ids(messages)


def _with_ids(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose calls have unique ids, which their results repeat."""
    taken: set[str] = set()
    open_calls: list[tuple[Any, str]] = []
    corrected = []
    for message in messages:
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            unique = [_with_unique_id(call, taken) for call in calls]
            open_calls = [
                (old.get("id") if isinstance(old, Mapping) else None, new["id"])
                for old, new in zip(calls, unique, strict=True)
            ]
            message = {**message, "tool_calls": unique}
        elif message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            for at, (old_id, new_id) in enumerate(open_calls):
                if old_id == call_id:  # results have the order of the calls
                    del open_calls[at]
                    call_id = new_id
                    break
            message = {**message, "tool_call_id": call_id}
        corrected.append(message)
    return corrected


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and bool(value)


def _with_unique_id(call: Any, taken: set[str]) -> dict[str, Any]:
    """Return a call with a unique id, which is added to `taken`."""
    call = dict(call) if isinstance(call, Mapping) else {}
    base = str(call["id"]) if _is_id(call.get("id")) else "call"
    call_id, number = base, len(taken)
    while call_id in taken:
        number += 1
        call_id = f"{base}_{number}"
    taken.add(call_id)
    function = call.get("function")
    if isinstance(function, Mapping):
        arguments = _without_lone_escapes(function.get("arguments"))
        call["function"] = {**function, "arguments": arguments}
    return {**call, "id": call_id}


def _without_lone_escapes(arguments: Any) -> Any:
    """Return the JSON of arguments without lone surrogates that are written as escapes."""
    if not isinstance(arguments, str) or not _SURROGATE_ESCAPE.search(arguments):
        return arguments
    try:
        content = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    encodable = _encodable(content)
    return arguments if encodable == content else json.dumps(encodable)


def _encodable(value: Any) -> Any:
    """Return a value in which each lone surrogate is a question mark."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {_encodable(name): _encodable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    return value
