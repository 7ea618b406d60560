"""Chat messages: the parts that are sent back to the provider, and estimates of their size."""

import json
from collections.abc import Iterable, Mapping
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
