"""Conversations of Google's generateContent as chat completions, and answers back.

LiteLLM's translation gives parallel calls of one tool the same id, and has neither signatures nor
images.
"""

import json
from collections.abc import Iterator
from typing import Any

from agent.models.protocol import Message, ModelReply
from agent.models.requests.gemini import (
    ContentPart,
    FileData,
    GeminiRequest,
    GeminiResult,
    InlineFile,
    InlineImage,
)

Body = dict[str, Any]

NO_SIGNATURE = "skip_thought_signature_validator"
"""Stands for the signature of an answer that had none."""

_FINISH_REASONS = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}


def messages_of(request: GeminiRequest) -> list[Message]:
    """Return the conversation of a request as messages of chat completions."""
    messages: list[Message] = []
    if request.system_instruction is not None:
        texts = [part.text for part in request.system_instruction.parts]
        messages.append({"role": "system", "content": "\n\n".join(texts)})
    waiting: list[tuple[str, str]] = []
    number = 0
    for content in request.contents:
        if content.role == "model":
            calls = []
            for part in content.parts:
                if part.function_call is not None:
                    calls.append(_call(part, f"call_{number}"))
                    number += 1
            waiting += [(call["id"], call["function"]["name"]) for call in calls]
            messages += _answer(content.parts, calls)
        else:
            messages += _results(content.parts, waiting)
            if shown := [*_show(content.parts)]:
                is_text = len(shown) == 1 and shown[0]["type"] == "text"
                messages.append({"role": "user", "content": shown[0]["text"] if is_text else shown})
    return messages


def _call(part: ContentPart, call_id: str) -> Body:
    call = part.function_call
    assert call is not None, "only parts with a call are converted"
    arguments = json.dumps(call.args or {}, ensure_ascii=False)
    converted: Body = {
        "id": call.id or call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }
    if part.thought_signature not in (None, NO_SIGNATURE):
        converted["provider_specific_fields"] = {"thought_signature": part.thought_signature}
    return converted


def _answer(parts: list[ContentPart], calls: list[Body]) -> Iterator[Message]:
    text = "".join(part.text or "" for part in parts if not part.thought)
    if calls:
        yield {"role": "assistant", "content": text or None, "tool_calls": calls}
    elif text:
        yield {"role": "assistant", "content": text}


def _results(parts: list[ContentPart], waiting: list[tuple[str, str]]) -> Iterator[Message]:
    """Yield the results of tools. One without an id belongs to the first call of its tool."""
    for part in parts:
        if (result := part.function_response) is None:
            continue
        matches = [call for call in waiting if call[0] == result.id]
        matches = matches or [call for call in waiting if call[1] == result.name]
        if matches:
            waiting.remove(matches[0])
        call_id = matches[0][0] if matches else result.id or result.name
        yield {"role": "tool", "tool_call_id": call_id, "content": _text_of(result)}


def _text_of(result: GeminiResult) -> str:
    output = result.response.get("output")
    if isinstance(output, str) and len(result.response) == 1:
        return output
    return json.dumps(result.response, ensure_ascii=False)


def _show(parts: list[ContentPart]) -> Iterator[Body]:
    """Yield the texts, images and files for the model. A result can also have images."""
    for part in parts:
        if part.text is not None:
            yield {"type": "text", "text": part.text}
        if part.inline_data is not None:
            yield _attach(part.inline_data)
        if part.file_data is not None:
            yield _attach(part.file_data)
        for attached in (part.function_response and part.function_response.parts) or ():
            yield _attach(attached.inline_data)


def _attach(content: InlineImage | InlineFile | FileData) -> Body:
    if isinstance(content, FileData):
        url = content.file_uri
    else:
        url = f"data:{content.mime_type};base64,{content.data}"
    if (content.mime_type or "").lower().startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"file_data": url}}


def answer_from_chat(reply: ModelReply, usage: Body, identity: str) -> Body:
    """Return a reply of chat completions as generated content."""
    message = reply.message
    parts: list[Body] = [{"text": message["content"]}] if message.get("content") else []
    parts += [_part_of(call) for call in message.get("tool_calls") or ()]
    candidate = {
        "content": {"role": "model", "parts": parts or [{"text": ""}]},
        "finishReason": _FINISH_REASONS.get(reply.finish_reason or "", "STOP"),
        "index": 0,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": reply.model,
        "responseId": identity,
    }


def _part_of(call: Body) -> Body:
    function = call.get("function") or {}
    try:
        args = json.loads(function.get("arguments") or "{}")
    except ValueError:
        args = None
    named = {"id": call.get("id"), "name": function.get("name")}
    part: Body = {"functionCall": {**named, "args": args if isinstance(args, dict) else {}}}
    fields = call.get("provider_specific_fields") or function.get("provider_specific_fields") or {}
    if signature := fields.get("thought_signature"):
        part["thoughtSignature"] = signature
    return part
