"""The four dialects of model APIs. All uses of LiteLLM's translations are in this module.

A request of another program is either sent in its own dialect, to a provider that speaks it, or
translated to chat completions and its answer back.
"""

import hashlib
import json
import os
import re
from dataclasses import replace
from typing import Any

from pydantic.alias_generators import to_camel, to_snake

from agent.errors import RequestRefused
from agent.models import gemini
from agent.models.ceilings import OUTPUT_LIMITS
from agent.models.chat import estimate_usage
from agent.models.http import load
from agent.models.protocol import (
    Foreign,
    Message,
    Model,
    ModelInfo,
    ModelReply,
    ModelRequest,
)
from agent.models.requests import ChatRequest, Dialect, GeminiRequest, parse_chat
from agent.models.requests.gemini import GenerationConfig
from agent.models.spec import LiteLLMSpec
from agent.models.usage import usage_block

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
            chat, _ = _messages_adapter().translate_anthropic_to_openai({**body, "model": model})
            chat.pop("context_management", None)
        elif isinstance(request, GeminiRequest):
            chat = _chat_of_gemini(request, body, model)
        else:
            talk = body.pop("input")
            chat = _plain(
                _responses_adapter().transform_responses_api_request_to_chat_completion_request(
                    model, talk, body
                )
            )
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise RequestRefused(
            f"this model has no such request: {type(error).__name__}: {error}"
        ) from error
    return parse_chat({name: value for name, value in chat.items() if value is not None})


def answer_of(foreign: Foreign, reply: ModelReply, identity: str) -> Body:
    """Return the reply of chat completions in the dialect of the request.

    The reply states the tokens of its prompt and output, since no dialect can state that they are
    unknown. `identity` distinguishes the answer from all others of the attempt. It is the same each
    time, so that a program sees the same answer again.
    """
    choice = {"index": 0, "message": reply.message, "finish_reason": reply.finish_reason or "stop"}
    response = {
        "id": f"chatcmpl-{identity}",
        "object": "chat.completion",
        "created": _MOMENT,
        "model": reply.model,
        "choices": [choice],
        "usage": usage_block("chat", reply.usage),
    }
    if foreign.dialect == "gemini":
        return gemini.answer_from_chat(reply, usage_block("gemini", reply.usage), identity)
    if foreign.dialect == "chat":
        return response
    chat = load().ModelResponse(**response)
    if foreign.dialect == "messages":
        answer = _plain(_messages_adapter().translate_openai_response_to_anthropic(chat))
        return {**answer, "id": f"msg_{identity}"}
    options = {name: value for name, value in foreign.asked.body.items() if name != "input"}
    answer = _plain(
        _responses_adapter().transform_chat_completion_response_to_responses_api_response(
            foreign.asked.body["input"], options, chat
        )
    )
    for number, item in enumerate(answer["output"]):
        if item["type"] != "function_call":
            item["id"] = f"{item['type']}_{identity}_{number}"
    usage = answer.get("usage") or {}
    usage["total_tokens"] = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
    return {**answer, "usage": usage, "id": f"resp_{identity}", "created_at": _MOMENT}


def _chat_of_gemini(request: GeminiRequest, body: Body, model: str) -> Body:
    config = body.get("generationConfig") or {}
    chat: Body = _gemini_adapter().translate_generate_content_to_completion(
        model, [], config, tools=body.get("tools"), toolConfig=body.get("toolConfig")
    )
    chat["messages"] = gemini.messages_of(request)
    names = {"seed": "seed", "topK": "top_k"}
    names |= {"presencePenalty": "presence_penalty", "frequencyPenalty": "frequency_penalty"}
    chat |= {name: config[own] for own, name in names.items() if own in config}
    if config.get("responseMimeType") == "application/json":
        chat.setdefault("response_format", {"type": "json_object"})
    thinking = config.get("thinkingConfig") or {}
    level = thinking.get("thinkingLevel", "").lower()
    if (tokens := thinking.get("thinkingBudget", -1)) > 0:  # -1: the model chooses
        level = _messages_adapter().translate_anthropic_thinking_to_reasoning_effort(
            {"type": "enabled", "budget_tokens": tokens}
        )
    if level in ("minimal", "low", "medium", "high"):
        chat["reasoning_effort"] = level
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    if allowed := calling.get("allowedFunctionNames"):
        tools = chat.get("tools") or []
        chat["tools"] = [tool for tool in tools if tool["function"]["name"] in allowed]
    if not chat.get("tools"):
        chat.pop("tool_choice", None)
    return chat


def gemini_settings(spec: LiteLLMSpec) -> tuple[Body, Body]:
    """Return a model's settings: the fields of Google's `generationConfig`, and the rest."""
    own: Body = {name: v for name, v in spec.extra.items() if name not in OUTPUT_LIMITS}
    for name in ("temperature", "reasoning_effort"):
        if getattr(spec, name) is not None:
            own[name] = getattr(spec, name)
    if not own:
        return {}, {}
    model = spec.name.partition("/")[2]
    mapped: Body = load().utils.get_optional_params(
        model=model, custom_llm_provider="gemini", drop_params=True, **own
    )
    if "temperature" not in own:
        mapped.pop("temperature", None)  # LiteLLM's own default
    fields = GenerationConfig.model_fields
    config = {to_camel(name): value for name, value in mapped.items() if to_snake(name) in fields}
    return config, {name: v for name, v in mapped.items() if to_snake(name) not in fields}


def address(dialect: Dialect, api_base: str | None, model: str = "") -> tuple[str, dict[str, str]]:
    """Return the URL of a provider for a dialect, and the headers with the key of this machine.

    The header is missing without a key, which a custom server does not need.
    """
    load()
    if dialect == "gemini":
        return _address_of_gemini(api_base, model)
    from litellm.llms.anthropic.common_utils import AnthropicModelInfo
    from litellm.llms.openai.responses.transformation import OpenAIResponsesAPIConfig

    if dialect == "messages":
        base = str(AnthropicModelInfo.get_api_base(api_base)).rstrip("/").removesuffix("/v1")
        key = str(AnthropicModelInfo.get_api_key() or "").strip()
        version = {"anthropic-version": "2023-06-01"}
        return f"{base}/v1/messages", {"x-api-key": key, **version} if key else version
    config: Any = OpenAIResponsesAPIConfig
    url = str(config().get_complete_url(api_base, {}))
    url = url if dialect == "responses" else url.replace("/responses", "/chat/completions")
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    return url, {"Authorization": f"Bearer {key}"} if key else {}


def address_of_list(spec: LiteLLMSpec) -> tuple[str, dict[str, str]] | None:
    """Return the URL of a server's list of models with the headers for it, or None if unknown."""
    dialects: dict[str, Dialect] = {"anthropic": "messages", "openai": "chat"}
    if dialect := dialects.get(spec.name.partition("/")[0]):
        url, headers = address(dialect, spec.api_base)
        return re.sub(r"/(messages|chat/completions)$", "/models", url), headers
    try:
        found = load().get_llm_provider(spec.name, api_base=spec.api_base)
    except Exception:  # LiteLLM has several classes for that
        return None
    _, _, key, base = found
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return (f"{base.rstrip('/')}/models", headers) if base else None


_GOOGLE = "https://generativelanguage.googleapis.com/v1beta"


def _address_of_gemini(api_base: str | None, model: str) -> tuple[str, dict[str, str]]:
    from litellm.llms.gemini.common_utils import get_api_key_from_env

    base = api_base or os.environ.get("GEMINI_API_BASE") or _GOOGLE
    key = (get_api_key_from_env() or "").strip()
    url = f"{base.rstrip('/')}/models/{model.partition('/')[2]}:generateContent"
    return url, {"x-goog-api-key": key} if key else {}


def _gemini_adapter() -> Any:
    load()
    from litellm.google_genai.adapters.transformation import GoogleGenAIAdapter

    return GoogleGenAIAdapter()


def _messages_adapter() -> Any:
    load()
    from litellm.llms.anthropic.pass_through.adapters.transformation import (
        LiteLLMAnthropicMessagesAdapter,
    )

    adapter: Any = LiteLLMAnthropicMessagesAdapter
    return adapter()


def _responses_adapter() -> Any:
    load()
    from litellm.responses.litellm_completion_transformation.transformation import (
        LiteLLMCompletionResponsesConfig,
    )

    return LiteLLMCompletionResponsesConfig


_MOMENT = 1_700_000_000
"""The time in translated answers, the same each time that an answer is repeated."""


def _plain(value: Any) -> Any:
    """Return an answer of LiteLLM as JSON values."""

    def dump(part: Any) -> Any:
        return part.model_dump(exclude_none=True) if hasattr(part, "model_dump") else str(part)

    return json.loads(json.dumps(value, default=dump))


PROGRAM = "agent"
"""The role in which a stand-in answers programs, whatever their recipe calls it."""

_NO_PARAMETERS = {"messages", "tools", "max_tokens", "max_completion_tokens"}
"""Fields of a chat request that have separate places in ours. All others are parameters."""

_STAND_INS = ("simulated", "scripted", "recorded")
_SHELL_TOOLS = re.compile(r"(.*_)?(bash|shell|terminal|(exec|shell|run)_commands?)$", re.I)
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
        foreign, chat = request.foreign, self._chat(request)
        assert foreign is not None, "only requests of other programs are translated"
        reply = await self._model.complete(chat)
        if self.info.provider in _STAND_INS:
            reply = replace(reply, message=_with_own_tools(reply.message, chat))
        if reply.message.get("tool_calls"):
            reply = replace(reply, finish_reason="tool_calls")
        # A program computes with these numbers, as our own arms do with the same estimate.
        stated = replace(reply, usage=estimate_usage(reply.usage, chat, reply.message))
        content = json.dumps([foreign.body, request.number], sort_keys=True)
        identity = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:24]
        return replace(reply, foreign=answer_of(foreign, stated, identity))

    def _chat(self, request: ModelRequest) -> ModelRequest:
        foreign = request.foreign
        assert foreign is not None, "only requests of other programs are translated"
        chat = chat_of(foreign, self.info.name)
        body = chat.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
        return replace(
            request,
            messages=body["messages"],
            tools=body.get("tools") or [],
            parameters={name: value for name, value in body.items() if name not in _NO_PARAMETERS},
            role=PROGRAM,
        )


def _with_own_tools(message: Message, chat: ModelRequest) -> Message:
    """Return the message of a stand-in with the names of the program's own shell tool."""
    tools = [tool.get("function", {}) for tool in chat.tools]
    shell = next((tool for tool in tools if _SHELL_TOOLS.match(str(tool.get("name")))), None)
    calls = message.get("tool_calls")
    if not calls or shell is None:
        return message
    schema = shell.get("parameters") or {}
    properties = schema.get("properties") or {}
    name = next((name for name in _COMMANDS if name in properties), "command")
    is_list = properties.get(name, {}).get("type") == "array"
    renamed = []
    for call in calls:
        if call["function"]["name"] == "bash":
            command = json.loads(call["function"]["arguments"])["command"]
            words = [command] if name == "commands" else ["bash", "-lc", command]
            arguments = {name: words if is_list else command}
            for required in schema.get("required") or []:
                argument = properties.get(required, {})
                if required not in arguments and argument.get("type") == "string":
                    arguments[required] = (argument.get("enum") or ["Run a command."])[0]
            function = {"name": shell["name"], "arguments": json.dumps(arguments)}
            call = {**call, "function": function}
        renamed.append(call)
    return {**message, "tool_calls": renamed}
