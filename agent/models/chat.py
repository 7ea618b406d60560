"""Chat messages: the parts that are sent back to the provider, and estimates of their size.

A model may have written text that is no Unicode, and ids that are missing, no text, or used twice.
Its conversation is recorded as it was, so that recorded steps keep their digests. It is only sent
otherwise.
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
    kept: Message = {"role": "assistant", "content": message.get("content")}
    if calls := message.get("tool_calls"):
        kept["tool_calls"] = _calls(calls)
    for name in _CONTINUATION:
        if message.get(name):
            kept[name] = message[name]
    fields = message.get("provider_specific_fields")
    if isinstance(fields, Mapping) and (known := _without_empty(fields)):
        kept["provider_specific_fields"] = known
    return kept


def _calls(written: Any) -> Any:
    """Return calls without their empty fields. What is no call stays as the model wrote it."""
    if not isinstance(written, list):
        return written
    return [_without_empty(call) if isinstance(call, Mapping) else call for call in written]


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


def estimated(usage: Usage, request: ModelRequest, message: Message) -> Usage:
    """Return a usage with estimates in place of an unknown size of the prompt or the output."""
    prompt, output = usage.input_tokens, usage.output_tokens
    return replace(
        usage,
        input_tokens=size_of(request) if prompt is None else prompt,
        output_tokens=tokens([message]) if output is None else output,
    )


def tokens(messages: Iterable[Mapping[str, Any]]) -> int:
    """Estimate the tokens of messages without a tokenizer: one per four characters."""
    return sum(_characters(message) for message in messages) // CHARS_PER_TOKEN


def _characters(message: Mapping[str, Any]) -> int:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content)
    calls = message.get("tool_calls")
    return len(text) + (len(json.dumps(calls)) if calls else 0)


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


# A pair of escapes is a character. A lone one is no text.
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def sendable(request: ModelRequest) -> list[Message]:
    """Return messages whose texts can be encoded and whose calls have ids of their own."""
    messages = request.messages
    if not _is_encodable(request.text):
        return _with_ids(_encodable(messages))
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    ids = {call.get("id") for call in calls if _is_id(call.get("id"))}
    return list(messages) if len(ids) == len(calls) else _with_ids(messages)


def _is_encodable(text: str) -> bool:
    """Return True if there are no lone surrogates, as in nearly all conversations."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return _SURROGATE_ESCAPE.search(text) is None


def _with_ids(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose calls have ids of their own."""
    taken: set[str] = set()
    open_calls: list[tuple[Any, str]] = []
    sent = []
    for message in messages:
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            named = [_named(call, taken) for call in calls]
            open_calls = [
                (call.get("id") if isinstance(call, Mapping) else None, own["id"])
                for call, own in zip(calls, named, strict=True)
            ]
            message = {**message, "tool_calls": named}
        elif message.get("role") == "tool":
            message = {**message, "tool_call_id": _answered(message, open_calls)}
        sent.append(message)
    return sent


def _is_id(written: Any) -> bool:
    return isinstance(written, str) and written.isprintable() and bool(written)


def _named(call: Any, taken: set[str]) -> dict[str, Any]:
    """Return a call with an id of its own, which is added to `taken`."""
    call = dict(call) if isinstance(call, Mapping) else {}
    written = call.get("id")
    wanted = str(written) if _is_id(written) else "call"
    own, number = wanted, len(taken)
    while own in taken:
        number += 1
        own = f"{wanted}_{number}"
    taken.add(own)
    function = call.get("function")
    if isinstance(function, Mapping):
        call["function"] = {**function, "arguments": _arguments(function.get("arguments"))}
    return {**call, "id": own}


def _answered(message: Message, open_calls: list[tuple[Any, str]]) -> Any:
    """Return the id of the call whose result a message is. Results have the order of the calls."""
    written = message.get("tool_call_id")
    for at, (asked, own) in enumerate(open_calls):
        if asked == written:
            del open_calls[at]
            return own
    return written


def _arguments(written: Any) -> Any:
    """Return the JSON of arguments without lone surrogates that are written as escapes."""
    if not isinstance(written, str) or not _SURROGATE_ESCAPE.search(written):
        return written
    try:
        content = json.loads(written)
    except (ValueError, RecursionError):
        return written
    known = _encodable(content)
    return written if known == content else json.dumps(known)


def _encodable(given: Any) -> Any:
    """Return a value in which each lone surrogate is a question mark."""
    if isinstance(given, str):
        return given if given.isascii() else given.encode(errors="replace").decode()
    if isinstance(given, Mapping):
        return {_encodable(name): _encodable(each) for name, each in given.items()}
    if isinstance(given, list | tuple):
        return [_encodable(each) for each in given]
    return given
