"""Any model that LiteLLM reaches, by its model string."""

import asyncio
import functools
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, TypeVar

from agent.errors import ContextWindowExceeded, RequestRefused
from agent.models import http, native, windows
from agent.models.answers import dialect_of, read_answer
from agent.models.ceilings import (
    OUTPUT_LIMITS,
    Ceilings,
    cost_of,
    estimate_tokens,
    find_listed,
    get_listed_name,
    is_ollama,
)
from agent.models.chat import essential, sendable
from agent.models.http import load, load_in_thread, suspend_logging
from agent.models.native import Tell, stream_completion, stream_responses
from agent.models.pacing import Sending
from agent.models.protocol import Foreign, ModelInfo, ModelReply, ModelRequest
from agent.models.retry import EmptyAnswer, RetryPolicy, call_with_retries
from agent.models.spec import LiteLLMSpec
from agent.models.usage import ReportedUsage, read_usage

_MARKED_BY = {"anthropic", "azure_ai", "bedrock", "databricks", "openrouter", "vertex_ai"}
"""Providers that accept cache markers for Claude models, according to LiteLLM's documentation."""

T = TypeVar("T")


class LiteLLMModel:
    """A provider's model through `litellm.acompletion`, under our own retries."""

    def __init__(self, spec: LiteLLMSpec, sending: Sending | None = None) -> None:
        self.info = ModelInfo(
            spec.name,
            "litellm",
            spec.native_tools,
            context_tokens=lambda: self._ceilings.context_tokens,
            ask_for_window=None if spec.api_base is None else self._find_window,
            max_tokens=lambda window: self._ceilings.max_tokens(window=window),
            dialects=native.dialects_of(spec),
        )
        self._spec = spec
        self._sending = sending or Sending()

    def ceiling_usd(self, request: ModelRequest) -> float | None:
        """Return the highest possible cost, or None for a model whose price is unknown.

        It is the estimated input, as if nothing of it was cached, and the limit on the output.
        """
        return self._ceilings.usd(request)

    @functools.cached_property
    def _ceilings(self) -> Ceilings:
        return Ceilings(load(), self._spec)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request.

        Raises:
            ContextWindowExceeded: the conversation is longer than the model can read.
            ModelError: no usable answer after the retries that the error's class allows.
            Interrupted: the run is to stop; NotSent if nothing can have been charged.
        """
        litellm, window = await load_in_thread(), await self._find_window()
        limit = self._ceilings.max_tokens_within(request, window)
        try:
            if request.foreign is not None and request.parameters is None:
                return await self._call_directly(request, request.foreign, limit)
            return await self._call_litellm(litellm, request, limit)
        except (ContextWindowExceeded, RequestRefused) as error:
            raise windows.reclassify(error, estimate_tokens(request), window) from error

    async def _find_window(self) -> int | None:
        await load_in_thread()
        return await windows.find_window(self._spec, self._ceilings)

    async def _call_litellm(
        self, litellm: ModuleType, request: ModelRequest, limit: int
    ) -> ModelReply:
        async def send() -> tuple[Any, ReportedUsage]:
            # Azure's client belongs to OpenAI's library, which wraps this one.
            litellm.aclient_session = http.client()  # type: ignore[attr-defined]
            with http.recording_bodies() as bodies:
                response = await _complete(
                    litellm, self._arguments(request, limit), self._sending.tell
                )
            if not response.choices:
                raise EmptyAnswer("the answer has no choices")
            # The provider's own figures are preferred to LiteLLM's view of them.
            if bodies and (dialect := dialect_of(bodies[-1])) is not None:
                return response, read_answer(dialect, bodies[-1]).reported
            usage = getattr(response, "usage", None)
            return response, read_usage(usage.model_dump() if usage else None)

        (response, reported), latency_s, retries = await self._send(send, request)
        cost_usd, source = cost_of(reported, self._ceilings)
        choice = response.choices[0]
        # No request can repeat lone surrogates.
        message = json.dumps(choice.message.model_dump(), ensure_ascii=False)
        return ModelReply(
            message=essential(json.loads(message.encode("utf-8", "replace"))),
            usage=replace(reported.usage, cost_usd=cost_usd),
            cost_source=source,
            model=response.model or self._spec.name,
            finish_reason=choice.finish_reason,
            latency_s=latency_s,
            retries=retries,
        )

    async def _send(
        self, send: Callable[[], Awaitable[T]], request: ModelRequest
    ) -> tuple[T, float, int]:
        """Return the answer to a request, its latency, and the number of failures before it."""

        async def attempt() -> tuple[T, float]:
            names = (_provider(self._spec.name), self._spec.name)
            tokens = estimate_tokens(request) + (self._spec.max_tokens or 0)
            server = self._spec.api_base or names[0]
            async with self._sending.hold_slot(server, self._spec.concurrency):
                await self._sending.admit(names, tokens)
                started = time.perf_counter()
                async with asyncio.timeout(self._spec.timeout_s):
                    response = await send()
                return response, time.perf_counter() - started

        (response, latency_s), retries = await call_with_retries(
            attempt,
            RetryPolicy(self._spec.max_retries),
            sleep=self._sending.sleep,
            before_resend=request.before_resend,
            report=self._sending.report_retry,
        )
        return response, latency_s, retries

    async def _call_directly(
        self, request: ModelRequest, foreign: Foreign, limit: int
    ) -> ModelReply:
        """Send a request of another program in its dialect, under the declared model."""
        body = native.body(self._spec, foreign, limit)
        answer, latency_s, retries = await self._send(
            lambda: native.post(self._spec, foreign, body), request
        )
        cost_usd, source = cost_of(answer.reported, self._ceilings)
        return ModelReply(
            message=answer.message,
            usage=replace(answer.reported.usage, cost_usd=cost_usd),
            cost_source=source,
            model=answer.model or self._spec.name,
            finish_reason=answer.finish_reason,
            latency_s=latency_s,
            retries=retries,
            foreign=answer.body,
        )

    def _arguments(self, request: ModelRequest, limit: int) -> dict[str, Any]:
        spec = self._spec
        name = spec.name
        arguments: dict[str, Any] = {}
        if request.goes_on and _takes_cache_markers(name):
            arguments["cache_control_injection_points"] = _CACHE_POINTS
        if _is_responses(spec):
            # The provider stores nothing, so a conversation can be resumed at any time. A reasoning
            # model continues from its own reasoning, which each request repeats.
            arguments["store"] = False
            if _lists_ability(name, "supports_reasoning"):
                arguments["include"] = ["reasoning.encrypted_content"]
            name = get_listed_name(name).replace(
                "/", "/responses/", 1
            )  # LiteLLM's choice of the API
        if request.parameters is not None:
            # LiteLLM drops parameters that the model does not take.
            arguments |= {**request.parameters, "drop_params": True}
        optional = {
            "tools": request.tools or None,
            "tool_choice": self._choice(request),
            "api_base": spec.api_base,
            "api_key": None if self._has_key else http.NO_KEY,
            "temperature": self._temperature(),
            "max_tokens": limit,
            "reasoning_effort": spec.reasoning_effort,
            # Without it, Ollama cuts a conversation to a small window of its own, silently.
            "num_ctx": self._ceilings.context_tokens if is_ollama(spec.name) else None,
        }
        return {
            **arguments,
            **{key: value for key, value in spec.extra.items() if key not in OUTPUT_LIMITS},
            **{key: value for key, value in optional.items() if value is not None},
            "model": name,
            "messages": sendable(request),
            "timeout": spec.timeout_s,
            # Only our own retry policy applies: LiteLLM's would multiply with it.
            "num_retries": 0,
            "max_retries": 0,
            # Otherwise, the first call with tools imports a client of MCP in half a second.
            "_skip_mcp_handler": True,
        }

    @functools.cached_property
    def _has_key(self) -> bool:
        """False for a custom server if the environment has no key of its provider."""
        if self._spec.api_base is None:
            return True
        environment = load().validate_environment(self._spec.name)
        return bool(environment.get("keys_in_environment"))

    def _choice(self, request: ModelRequest) -> dict[str, Any] | None:
        """Return the tool that must be called, if the provider can enforce that."""
        spec = self._spec
        if not request.only or not request.tools or _is_thinking_claude(spec):
            return None
        can_enforce = _lists_ability(spec.name, "supports_tool_choice") and _takes(
            spec.name, spec.reasoning_effort, "tool_choice", "required"
        )
        return {"type": "function", "function": {"name": request.only}} if can_enforce else None

    def _temperature(self) -> float | None:
        """Return the temperature, unless the model refuses it."""
        spec = self._spec
        if spec.temperature is None or _is_thinking_claude(spec):
            return None
        is_taken = _takes(spec.name, spec.reasoning_effort, "temperature", spec.temperature)
        return spec.temperature if is_taken else None


async def _complete(litellm: ModuleType, arguments: dict[str, Any], tell: Tell | None) -> Any:
    """Return the response.

    A response of the Responses API can hold reasoning only, or nothing at all. LiteLLM reports that
    as a broken connection, although the model did answer, and would do so again.
    """
    try:
        if tell is None:
            with suspend_logging():
                return await litellm.acompletion(**arguments)
        if "/responses/" in arguments["model"]:
            return await stream_responses(litellm, arguments, tell)
        return await stream_completion(litellm, arguments, tell)
    except (litellm.APIConnectionError, ValueError) as error:
        if "Unknown items in responses API response" not in str(error):
            raise
        choice = {"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}
        return litellm.ModelResponse(model=arguments["model"], choices=[choice])


_CACHE_POINTS = [{"location": "message", "role": "system"}, {"location": "message", "index": -1}]
"""Cache points after the instructions and at the end of the conversation.

All conversations of a role share the instructions. The next call of this conversation shares the
rest.
"""


@functools.cache
def _takes_cache_markers(name: str) -> bool:
    """Return True if a model caches only marked text.

    Most providers cache without markers. So do Google's models, but they would treat the markers as
    a request to store the text, at a charge.
    """
    marked = _provider(name) in _MARKED_BY and "claude" in name.lower()
    return marked and bool(load().utils.supports_prompt_caching(name))


def _is_responses(spec: LiteLLMSpec) -> bool:
    """Return True for OpenAI's Responses API, which the model string can also name."""
    return spec.api == "responses" or spec.name != get_listed_name(spec.name)


def _is_thinking_claude(spec: LiteLLMSpec) -> bool:
    """Return True for a model that takes neither a temperature nor a forced tool now."""
    thinks = spec.reasoning_effort is not None or "thinking" in spec.extra
    return thinks and "claude" in spec.name.lower()


@functools.cache
def _lists_ability(name: str, ability: str) -> bool:
    """Return True if LiteLLM lists a model with an ability."""
    return bool(find_listed(load(), name).get(ability))


@functools.cache
def _takes(name: str, effort: str | None, parameter: str, value: Any) -> bool:
    """Return False if LiteLLM lists that a model refuses a parameter."""
    litellm = load()
    try:
        bare, provider, *_ = litellm.get_llm_provider(get_listed_name(name))
        litellm.utils.get_optional_params(
            model=bare,
            custom_llm_provider=provider,
            reasoning_effort=effort,
            **{parameter: value},
        )
    except litellm.UnsupportedParamsError:
        return False
    except Exception:  # the call itself reports the problem with the name
        return True
    return True


@functools.cache
def _provider(name: str) -> str:
    """Return LiteLLM's name for the provider of a model, or '' if LiteLLM does not know it."""
    try:
        return str(load().get_llm_provider(name)[1])
    except Exception:  # LiteLLM has several classes for that
        return ""
