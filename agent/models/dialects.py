"""The three dialects of model APIs. All uses of LiteLLM's translations are in this module.

A request of another program is either sent as it is, to a provider that speaks its dialect, or
translated to chat completions and its answer back.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from agent.models.litellm_loading import load
from agent.models.protocol import Dialect, Foreign, Message, ModelReply

Body = dict[str, Any]

_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "completed": "stop",
    "incomplete": "length",
}
_OUTPUT_LIMIT: dict[Dialect, str] = {
    "chat": "max_completion_tokens",
    "messages": "max_tokens",
    "responses": "max_output_tokens",
}
OUTPUT_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
"""Names of the limit on the output, in any dialect."""


def output_limit(body: Body) -> int | None:
    """Return the limit on the output that a request asks for."""
    return next((body[name] for name in OUTPUT_LIMITS if body.get(name)), None)


def limited(foreign: Foreign, max_tokens: int | None) -> Body:
    """Return the body of a request with a limit on its output that is at most `max_tokens`."""
    body, asked = foreign.body, output_limit(foreign.body)
    if max_tokens is None or (asked is not None and asked <= max_tokens):
        return dict(body)
    name = next((each for each in OUTPUT_LIMITS if body.get(each)), _OUTPUT_LIMIT[foreign.dialect])
    thinking = body.get("thinking") or {}
    if thinking.get("budget_tokens", 0) >= max_tokens:  # providers demand less than the output
        thinking = {**thinking, "budget_tokens": max_tokens // 2}
    return {**body, **({"thinking": thinking} if thinking else {}), name: max_tokens}


def chat_of(foreign: Foreign, model: str) -> Body:
    """Return a request as one of chat completions.

    Raises:
        ValueError: the request does not follow its dialect.
    """
    body = json.loads(json.dumps(foreign.body))  # the translations change what they are given
    try:
        match foreign.dialect:
            case "chat":
                chat = body
            case "messages":
                chat = _chat_of_messages({**body, "model": model})
            case "responses":
                chat = _chat_of_responses(body, model)
        if not isinstance(chat.get("messages"), list):
            raise ValueError("messages: a list is required")
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"not a request of this API: {type(error).__name__}: {error}") from error
    left_out = ("model", "stream", "stream_options", "store", "user", "metadata")
    return {name: each for name, each in chat.items() if name not in left_out and each is not None}


def answer_of(foreign: Foreign, reply: ModelReply, identity: str) -> Body:
    """Return the reply of chat completions in the dialect of the request.

    The reply states the tokens of its prompt and of its output, for which a dialect has no word
    for unknown. `identity` distinguishes the answer from all others of the attempt. It is the
    same each time, so that a program sees the same answer again.
    """
    response = _chat_response(reply, identity)
    match foreign.dialect:
        case "chat":
            return response
        case "messages":
            answer = _adapter().translate_openai_response_to_anthropic(
                load().ModelResponse(**response)
            )
            return {**_plain(answer), "id": f"msg_{identity}"}
        case "responses":
            return _responses_answer(foreign.body, response, identity)


def message_of(dialect: Dialect, answer: Body) -> Message:
    """Return the text and the calls of an answer as an assistant message."""
    if dialect == "chat":
        return dict(answer["choices"][0]["message"]) if answer.get("choices") else _said([], [])
    if dialect == "messages":
        blocks = answer.get("content") or []
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        uses = [block for block in blocks if block.get("type") == "tool_use"]
        return _said(texts, [_call(use["id"], use["name"], use["input"]) for use in uses])
    items = answer.get("output") or []
    parts = [part for item in items for part in item.get("content") or []]
    texts = [part["text"] for part in parts if part.get("type") == "output_text"]
    calls = [item for item in items if str(item.get("type")).endswith("_call")]
    return _said(
        texts,
        [
            _call(
                str(item.get("call_id") or item.get("id")),
                str(item.get("name") or item["type"]),
                item.get("arguments") or item.get("input") or item.get("action") or {},
            )
            for item in calls
        ],
    )


def finish_reason_of(dialect: Dialect, answer: Body) -> str | None:
    """Return why an answer ended, in the words of chat completions."""
    if dialect == "chat":
        return answer["choices"][0].get("finish_reason") if answer.get("choices") else None
    reason = answer.get("stop_reason" if dialect == "messages" else "status")
    return _FINISH_REASONS.get(str(reason), reason)


def usage_block(dialect: Dialect, answer: Body) -> Body:
    """Return the token counts of an answer in the form of chat completions."""
    block = answer.get("usage") or {}
    if not block or dialect == "chat":
        return block
    if dialect == "messages":
        from litellm.llms.anthropic.chat.transformation import AnthropicConfig

        usage = AnthropicConfig().calculate_usage(block, None)
    else:
        from litellm.responses.utils import ResponseAPILoggingUtils

        usage = ResponseAPILoggingUtils._transform_response_api_usage_to_chat_usage(block)
    return dict(usage.model_dump())


def is_too_long(problem: str) -> bool:
    """Return True if a provider's message says that a conversation is too long."""
    load()
    from litellm.litellm_core_utils.exception_mapping_utils import ExceptionCheckers

    mentioned = ("prompt is too long", "context_length_exceeded")
    return any(each in problem for each in mentioned) or bool(
        ExceptionCheckers.is_error_str_context_window_exceeded(problem)
    )


def address(dialect: Dialect, api_base: str | None) -> tuple[str, dict[str, str]]:
    """Return the URL of a provider for a dialect, and the headers with the key of this machine."""
    load()
    if dialect == "messages":
        return _anthropic_address(api_base)
    from litellm.llms.openai.responses.transformation import OpenAIResponsesAPIConfig

    config: Any = OpenAIResponsesAPIConfig
    url = str(config().get_complete_url(api_base, {}))
    url = url if dialect == "responses" else url.replace("/responses", "/chat/completions")
    return url, {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"}


def _anthropic_address(api_base: str | None) -> tuple[str, dict[str, str]]:
    from litellm.llms.anthropic.common_utils import AnthropicModelInfo

    base = str(AnthropicModelInfo.get_api_base(api_base)).rstrip("/").removesuffix("/v1")
    key = str(AnthropicModelInfo.get_api_key() or "")
    return f"{base}/v1/messages", {"x-api-key": key, "anthropic-version": "2023-06-01"}


def _adapter() -> Any:
    load()
    from litellm.llms.anthropic.pass_through.adapters.transformation import (
        LiteLLMAnthropicMessagesAdapter,
    )

    adapter: Any = LiteLLMAnthropicMessagesAdapter
    return adapter()


def _chat_of_messages(body: Body) -> Body:
    chat, _ = _adapter().translate_anthropic_to_openai(body)
    return {name: each for name, each in chat.items() if name != "context_management"}


def _chat_of_responses(body: Body, model: str) -> Body:
    options = {name: each for name, each in body.items() if name != "input"}
    chat = _responses().transform_responses_api_request_to_chat_completion_request(
        model, body["input"], options
    )
    return dict(_plain(chat))


def _responses_answer(asked: Body, response: Body, identity: str) -> Body:
    options = {name: each for name, each in asked.items() if name != "input"}
    answer = _responses().transform_chat_completion_response_to_responses_api_response(
        asked["input"], options, load().ModelResponse(**response)
    )
    content = _plain(answer)
    for number, item in enumerate(content["output"]):
        if item["type"] != "function_call":
            item["id"] = f"{item['type']}_{identity}_{number}"
    usage = content.get("usage") or {}
    usage["total_tokens"] = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
    return {**content, "usage": usage, "id": f"resp_{identity}", "created_at": _MOMENT}


def _responses() -> Any:
    load()
    from litellm.responses.litellm_completion_transformation.transformation import (
        LiteLLMCompletionResponsesConfig,
    )

    return LiteLLMCompletionResponsesConfig


_MOMENT = 1_700_000_000
"""The time in translated answers: one that is the same when the answer is given again."""


def _chat_response(reply: ModelReply, identity: str) -> Body:
    usage = reply.usage
    prompt, output = usage.input_tokens, usage.output_tokens
    assert prompt is not None, "see `answer_of`"
    assert output is not None, "see `answer_of`"
    choice = {"index": 0, "message": reply.message, "finish_reason": reply.finish_reason or "stop"}
    return {
        "id": f"chatcmpl-{identity}",
        "object": "chat.completion",
        "created": _MOMENT,
        "model": reply.model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": _known(cached_tokens=usage.cache_read_tokens),
            "completion_tokens_details": _known(reasoning_tokens=usage.reasoning_tokens),
        },
    }


def _known(**counts: int | None) -> Body:
    return {name: number for name, number in counts.items() if number is not None}


def _plain(value: Any) -> Any:
    """Return an answer of LiteLLM as JSON values."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(exclude_none=True)
    return json.loads(json.dumps(value, default=_dumped))


def _dumped(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else str(value)


def _said(texts: list[str], calls: list[Body]) -> Message:
    message: Message = {"role": "assistant", "content": "\n".join(texts) or None}
    return {**message, "tool_calls": calls} if calls else message


def _call(call_id: str, name: str, given: Mapping[str, Any] | str) -> Body:
    arguments = given if isinstance(given, str) else json.dumps(given)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
