"""Any model that LiteLLM reaches, by its model string."""

import asyncio
import functools
import json
import random
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from types import ModuleType
from typing import Any, TypeVar

from agent.errors import ContextWindowExceeded, RequestRefused
from agent.models import ceilings, http, native
from agent.models.answers import dialect_of, read_answer
from agent.models.ceilings import OUTPUT_LIMITS, Ceilings, cost_of, estimated_tokens, listed_name
from agent.models.chat import essential, sendable
from agent.models.http import load, loaded, unlogged
from agent.models.native import Tell, streamed, streamed_by_responses
from agent.models.protocol import Foreign, ModelInfo, ModelReply, ModelRequest, Parameters
from agent.models.retry import EmptyAnswer, RetryPolicy, call_with_retries
from agent.models.spec import LiteLLMSpec
from agent.models.usage import ReportedUsage, read_usage

Admit = Callable[[Collection[str], int], Awaitable[None]]
"""Waits until a request may be sent.

Takes the names of the provider and of the model, and the approximate number of tokens.
"""

_MARKED_BY = {"anthropic", "azure_ai", "bedrock", "databricks", "openrouter", "vertex_ai"}
"""Providers that accept cache markers for Claude models, according to LiteLLM's documentation."""


Resend = Callable[[], Awaitable[None]]

T = TypeVar("T")

_NO_OUTPUT = "Unknown items in responses API response"
_EMPTY_CHOICE = {"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}


class LiteLLMModel:
    """A provider's model through `litellm.acompletion`, under our own retries."""

    def __init__(
        self,
        spec: LiteLLMSpec,
        *,
        admit: Admit | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
        tell: Tell | None = None,
        say: Tell | None = None,
    ) -> None:
        """Use a model. With `tell`, texts are passed on while they are generated.

        `say` receives one line about each longer wait for a model that does not answer.
        """
        self.info = ModelInfo(
            spec.name,
            "litellm",
            spec.native_tools,
            context_tokens=lambda: self._ceilings.context_tokens,
            dialects=native.dialects_of(spec),
        )
        self._spec = spec
        self._policy = RetryPolicy(spec.max_retries)
        self._admit = admit
        self._sleep = sleep
        self._uniform = uniform
        self._tell = tell
        self._say = say

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
            Interrupted: raised by `admit` or `sleep`; NotSent if nothing can have been charged.
        """
        litellm = await loaded()
        window = await ceilings.window_of(self._spec, self._ceilings)
        limit = self._ceilings.max_tokens_within(request, window)
        try:
            if request.foreign is not None and request.parameters is None:
                return await self._passed_on(request, request.foreign, limit)
            return await self._translated(litellm, request, limit)
        except (ContextWindowExceeded, RequestRefused) as error:
            raise ceilings.judged(error, estimated_tokens(request), window) from error

    async def _translated(
        self, litellm: ModuleType, request: ModelRequest, limit: int
    ) -> ModelReply:
        """Send a request through LiteLLM."""

        async def send() -> tuple[Any, ReportedUsage]:
            # Azure's client is one of OpenAI's library, which makes it around this one.
            litellm.aclient_session = http.client()  # type: ignore[attr-defined]
            with http.response() as noted:
                response = await self._completed(litellm, self._arguments(request, limit))
            if not response.choices:
                raise EmptyAnswer("the answer has no choices")
            return response, _reported(response, noted.body)

        size, resend = estimated_tokens(request), request.before_resend
        answer, latency_s, retries = await self._sent(send, size, resend)
        return self._reply(*answer, latency_s, retries)

    async def _completed(self, litellm: ModuleType, arguments: dict[str, Any]) -> Any:
        if self._tell is None:
            return await _completion(litellm, arguments)
        if _is_responses(self._spec):
            return await _streamed_by_responses(litellm, arguments, self._tell)
        return await streamed(litellm, arguments, self._tell)

    async def _sent(
        self, send: Callable[[], Awaitable[T]], size: int, before_resend: Resend | None
    ) -> tuple[T, float, int]:
        """Return the answer to a request of `size` tokens, its latency, and the failures before."""

        async def attempt() -> tuple[T, float]:
            if self._admit is not None:
                names = (_provider(self._spec.name), self._spec.name)
                await self._admit(names, size + (self._spec.max_tokens or 0))
            started = time.perf_counter()
            async with asyncio.timeout(self._spec.timeout_s):
                response = await send()
            return response, time.perf_counter() - started

        (response, latency_s), retries = await call_with_retries(
            attempt,
            self._policy,
            sleep=self._sleep,
            uniform=self._uniform,
            before_resend=before_resend,
            tell=self._say,
        )
        return response, latency_s, retries

    async def _passed_on(self, request: ModelRequest, foreign: Foreign, limit: int) -> ModelReply:
        """Send a request of another program in its dialect, under the declared model."""
        body = native.body(self._spec, foreign, limit)
        answer, latency_s, retries = await self._sent(
            lambda: native.post(self._spec, foreign, body),
            estimated_tokens(request),
            request.before_resend,
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
        optional = {
            "tools": request.tools or None,
            "tool_choice": self._choice(request),
            "api_base": spec.api_base,
            "api_key": None if self._has_key else http.NO_KEY,
            "temperature": self._temperature(),
            "max_tokens": limit,
            "reasoning_effort": spec.reasoning_effort,
        }
        return {
            **(_cache_points() if request.goes_on and _takes_cache_markers(spec.name) else {}),
            **(_reasoning_kept(spec.name) if _is_responses(spec) else {}),
            **(_set_by_program(request.parameters) if request.parameters else {}),
            **{name: value for name, value in spec.extra.items() if name not in OUTPUT_LIMITS},
            **{name: value for name, value in optional.items() if value is not None},
            "model": _sent_name(spec),
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
        """False for a server of one's own, if the environment has no key of its provider."""
        if self._spec.api_base is None:
            return True
        found = load().validate_environment(self._spec.name)
        return bool(found.get("keys_in_environment"))

    def _choice(self, request: ModelRequest) -> dict[str, Any] | None:
        """Return the tool that has to be called, where the provider can enforce that."""
        if not request.only or not request.tools:
            return None
        choice = {"type": "function", "function": {"name": request.only}}
        spec = self._spec
        if _is_thinking_claude(spec) or not _listed_as(spec.name, "supports_tool_choice"):
            return None
        return (
            choice if _takes(spec.name, spec.reasoning_effort, "tool_choice", "required") else None
        )

    def _temperature(self) -> float | None:
        """Return the temperature, unless the model refuses it."""
        spec = self._spec
        if spec.temperature is None or _is_thinking_claude(spec):
            return None
        taken = _takes(spec.name, spec.reasoning_effort, "temperature", spec.temperature)
        return spec.temperature if taken else None

    def _reply(
        self, response: Any, reported: ReportedUsage, latency_s: float, retries: int
    ) -> ModelReply:
        cost_usd, source = cost_of(reported, self._ceilings)
        choice = response.choices[0]
        return ModelReply(
            message=essential(_encodable(choice.message.model_dump())),
            usage=replace(reported.usage, cost_usd=cost_usd),
            cost_source=source,
            model=response.model or self._spec.name,
            finish_reason=choice.finish_reason,
            latency_s=latency_s,
            retries=retries,
        )


def _reported(response: Any, body: Any) -> ReportedUsage:
    """Return the figures of an answer: the provider's own, or what LiteLLM makes of them."""
    if (dialect := dialect_of(body)) is not None:
        return read_answer(dialect, body).reported
    usage = getattr(response, "usage", None)
    return read_usage(usage.model_dump() if usage else None)


def _set_by_program(parameters: Parameters) -> dict[str, Any]:
    """Return what a program set, without what LiteLLM knows that the model does not take."""
    given = {name: value for name, value in vars(parameters).items() if value is not None}
    return {**given, "drop_params": True}


async def _completion(litellm: ModuleType, arguments: dict[str, Any]) -> Any:
    """Return the response. One of the Responses API may hold reasoning only, or nothing at all.

    LiteLLM reports that as a broken connection. The model did answer, and would do so again.
    """
    try:
        with unlogged():
            return await litellm.acompletion(**arguments)
    except litellm.APIConnectionError as error:
        if _NO_OUTPUT not in str(error):
            raise
        return litellm.ModelResponse(model=arguments["model"], choices=[_EMPTY_CHOICE])


async def _streamed_by_responses(litellm: ModuleType, arguments: dict[str, Any], tell: Tell) -> Any:
    """Return the response, which may hold reasoning only, as `_completion` does."""
    try:
        return await streamed_by_responses(litellm, arguments, tell)
    except ValueError as error:
        if _NO_OUTPUT not in str(error):
            raise
        return litellm.ModelResponse(model=arguments["model"], choices=[_EMPTY_CHOICE])


def _encodable(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without lone surrogates, which no request can repeat."""
    encoded = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    return dict(json.loads(encoded))


def _cache_points() -> dict[str, Any]:
    """Return cache points after the instructions and at the end of the conversation.

    All conversations of a role share the instructions. The next call of this conversation shares
    the rest.
    """
    points = [{"location": "message", "role": "system"}, {"location": "message", "index": -1}]
    return {"cache_control_injection_points": points}


@functools.cache
def _takes_cache_markers(name: str) -> bool:
    """Return True if a model caches only marked text.

    Most providers cache by themselves. So do Google's models, but they would treat the markers as a
    request to store the text, at a charge.
    """
    marked = _provider(name) in _MARKED_BY and "claude" in name.lower()
    return marked and bool(load().utils.supports_prompt_caching(name))


def _is_responses(spec: LiteLLMSpec) -> bool:
    """Return True for OpenAI's Responses API, which may also be named in the model string."""
    return spec.api == "responses" or spec.name != listed_name(spec.name)


def _sent_name(spec: LiteLLMSpec) -> str:
    """Return the model string by which LiteLLM chooses the API."""
    bare = listed_name(spec.name)
    return bare.replace("/", "/responses/", 1) if _is_responses(spec) else spec.name


def _reasoning_kept(name: str) -> dict[str, Any]:
    """Return the parameters with which a reasoning model continues from its own reasoning.

    The provider keeps nothing, so a conversation can be resumed at any time.
    """
    if not _listed_as(name, "supports_reasoning"):
        return {"store": False}
    return {"store": False, "include": ["reasoning.encrypted_content"]}


def _is_thinking_claude(spec: LiteLLMSpec) -> bool:
    """Return True for a model that takes neither a temperature nor a forced tool now."""
    thinks = spec.reasoning_effort is not None or "thinking" in spec.extra
    return thinks and "claude" in spec.name.lower()


@functools.cache
def _listed_as(name: str, ability: str) -> bool:
    """Return True if LiteLLM lists a model with an ability."""
    try:
        return bool(load().get_model_info(listed_name(name)).get(ability))
    except Exception:  # LiteLLM raises a bare Exception for an unlisted model
        return False


@functools.cache
def _takes(name: str, effort: str | None, parameter: str, value: Any) -> bool:
    """Return False if LiteLLM knows that a model refuses a parameter."""
    litellm = load()
    try:
        bare, provider, *_ = litellm.get_llm_provider(listed_name(name))
        litellm.utils.get_optional_params(
            model=bare,
            custom_llm_provider=provider,
            reasoning_effort=effort,
            **{parameter: value},
        )
    except litellm.UnsupportedParamsError:
        return False
    except Exception:  # the call itself reports what is wrong with the name
        return True
    return True


@functools.cache
def _provider(name: str) -> str:
    """Return LiteLLM's name for the provider of a model, or '' if LiteLLM does not know it."""
    try:
        return str(load().get_llm_provider(name)[1])
    except Exception:  # LiteLLM has several classes for that
        return ""
