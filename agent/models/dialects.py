"""The three dialects of model APIs. All uses of LiteLLM's translations are in this module.

A request of another program is either sent in its own dialect, to a provider that speaks it, or
translated to chat completions and its answer back.
"""

import hashlib
import json
import os
import re
from dataclasses import fields, replace
from typing import Any

from agent.errors import RequestRefused
from agent.models.answers import usage_block
from agent.models.chat import estimated
from agent.models.http import load
from agent.models.protocol import (
    Foreign,
    Message,
    Model,
    ModelInfo,
    ModelReply,
    ModelRequest,
    Parameters,
)
from agent.models.requests import ChatRequest, Dialect, parse_chat

Body = dict[str, Any]


def chat_of(foreign: Foreign, model: str) -> ChatRequest:
    """Return a request as one of chat completions, which passed the door of both dialects.

    Raises:
        RequestRefused: the request does not follow its dialect, or cannot be translated.
    """
    request = foreign.asked.request
    if isinstance(request, ChatRequest):
        return request
    body = json.loads(json.dumps(foreign.asked.body))  # the translations change their input
    try:
        if foreign.dialect == "messages":
            body = _chat_of_messages({**body, "model": model})
        else:
            body = _chat_of_responses(body, model)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise RequestRefused(
            f"this model has no such request: {type(error).__name__}: {error}"
        ) from error
    return parse_chat({name: each for name, each in body.items() if each is not None})


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
            return _responses_answer(foreign.asked.body, response, identity)


def address(dialect: Dialect, api_base: str | None) -> tuple[str, dict[str, str]]:
    """Return the URL of a provider for a dialect, and the headers with the key of this machine.

    Without a key there is no header for it: a server of one's own needs none.
    """
    load()
    if dialect == "messages":
        return _anthropic_address(api_base)
    from litellm.llms.openai.responses.transformation import OpenAIResponsesAPIConfig

    config: Any = OpenAIResponsesAPIConfig
    url = str(config().get_complete_url(api_base, {}))
    url = url if dialect == "responses" else url.replace("/responses", "/chat/completions")
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    return url, {"Authorization": f"Bearer {key}"} if key else {}


def _anthropic_address(api_base: str | None) -> tuple[str, dict[str, str]]:
    from litellm.llms.anthropic.common_utils import AnthropicModelInfo

    base = str(AnthropicModelInfo.get_api_base(api_base)).rstrip("/").removesuffix("/v1")
    key = str(AnthropicModelInfo.get_api_key() or "").strip()
    version = {"anthropic-version": "2023-06-01"}
    return f"{base}/v1/messages", {"x-api-key": key, **version} if key else version


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
    choice = {"index": 0, "message": reply.message, "finish_reason": reply.finish_reason or "stop"}
    return {
        "id": f"chatcmpl-{identity}",
        "object": "chat.completion",
        "created": _MOMENT,
        "model": reply.model,
        "choices": [choice],
        "usage": usage_block("chat", reply.usage),
    }


def _plain(value: Any) -> Any:
    """Return an answer of LiteLLM as JSON values."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(exclude_none=True)
    return json.loads(json.dumps(value, default=_dumped))


def _dumped(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else str(value)


PROGRAM = "agent"
"""The role in which a stand-in answers programs, whatever their recipe calls it."""

_STAND_INS = ("simulated", "scripted", "recorded")
_SHELL_TOOLS = re.compile(r"(.*_)?(bash|shell|terminal|(exec|shell|run)_command)$", re.I)
_COMMANDS = ("command", "cmd", "commands")


def answering(model: Model, foreign: Foreign) -> Model:
    """Return a model for a request: the given one if it takes the dialect, else a translator."""
    return model if foreign.dialect in model.info.dialects else Translated(model)


class Translated:
    """Translates requests to chat completions, and the answers back."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def info(self) -> ModelInfo:
        return self._model.info

    def ceiling_usd(self, request: ModelRequest) -> float | None:
        """Return the highest possible cost of the answer, as the model itself does."""
        return self._model.ceiling_usd(self._chat(request))

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request.

        Raises:
            RequestRefused: the request does not follow its dialect.
            ContextWindowExceeded, ModelError: as the model itself.
        """
        foreign = request.foreign
        assert foreign is not None, "only requests of other programs are translated"
        chat = self._chat(request)
        reply = await self._model.complete(chat)
        if self.info.provider in _STAND_INS:
            reply = replace(reply, message=_with_own_tools(reply.message, chat))
        if reply.message.get("tool_calls"):
            reply = replace(reply, finish_reason="tool_calls")
        # A program computes with these numbers, as our own arms do with the same estimate.
        answered = replace(reply, usage=estimated(reply.usage, chat, reply.message))
        return replace(reply, foreign=answer_of(foreign, answered, _identity(request)))

    def _chat(self, request: ModelRequest) -> ModelRequest:
        foreign = request.foreign
        assert foreign is not None, "only requests of other programs are translated"
        chat = chat_of(foreign, self.info.name)
        body = chat.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
        set_by_program = {each.name: body.get(each.name) for each in fields(Parameters)}
        return replace(
            request,
            messages=body["messages"],
            tools=body.get("tools") or [],
            parameters=Parameters(**set_by_program),
            role=PROGRAM,
        )


def _identity(request: ModelRequest) -> str:
    assert request.foreign is not None
    text = json.dumps([request.foreign.body, request.number], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def _with_own_tools(message: Message, chat: ModelRequest) -> Message:
    """Return the message of a stand-in with the names of the program's own shell tool."""
    tool = next((each["function"] for each in chat.tools if _is_shell(each)), None)
    calls = message.get("tool_calls")
    if not calls or tool is None:
        return message
    return {**message, "tool_calls": [_renamed(call, tool) for call in calls]}


def _is_shell(tool: dict[str, Any]) -> bool:
    return bool(_SHELL_TOOLS.match(str(tool.get("function", {}).get("name"))))


def _renamed(call: dict[str, Any], tool: dict[str, Any]) -> dict[str, Any]:
    if call["function"]["name"] != "bash":
        return call
    command = json.loads(call["function"]["arguments"])["command"]
    schema = tool.get("parameters") or {}
    known = schema.get("properties") or {}
    name = next((each for each in _COMMANDS if each in known), "command")
    is_list = known.get(name, {}).get("type") == "array"
    arguments = {name: ["bash", "-lc", command] if is_list else command}
    for required in schema.get("required") or []:
        described = known.get(required, {})
        if required not in arguments and described.get("type") == "string":
            arguments[required] = (described.get("enum") or ["Run a command."])[0]
    function = {"name": tool["name"], "arguments": json.dumps(arguments)}
    return {**call, "function": function}
