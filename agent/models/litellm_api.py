"""Any model that LiteLLM reaches, by its model string."""

import asyncio
import functools
import json
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Collection
from types import ModuleType
from typing import Any

from agent.models.chat import essential, tokens
from agent.models.protocol import CostSource, ModelInfo, ModelReply, ModelRequest
from agent.models.retry import EmptyAnswer, RetryPolicy, call_with_retries
from agent.models.spec import LiteLLMSpec
from agent.models.usage import usage_of

Admit = Callable[[Collection[str], int], Awaitable[None]]
"""Waits until a request may be sent.

Takes the names of the provider and of the model, and the approximate number of tokens.
"""

_ASSUMED_OUTPUT_TOKENS = 64_000
"""Output tokens assumed for a call if neither the experiment nor LiteLLM's list sets a limit."""

_MARKED_BY = {"anthropic", "azure_ai", "bedrock", "databricks", "openrouter", "vertex_ai"}
"""Providers that accept cache markers for Claude models, according to LiteLLM's documentation."""


@functools.cache
def load() -> ModuleType:
    """Return LiteLLM, configured. The first call takes seconds, so there is no import above."""
    # Its price list is in the package. Without this, it is downloaded on import.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # Sends OpenAI requests like those of all other providers. OpenAI's SDK matches every message
    # against its types, so a call with 100 messages costs 25 ms more through it.
    os.environ.setdefault("EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER", "true")
    import litellm

    litellm.suppress_debug_info = True
    if "LITELLM_LOG" not in os.environ:
        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm


class LiteLLMModel:
    """A provider's model through `litellm.acompletion`, under our own retries."""

    def __init__(
        self,
        spec: LiteLLMSpec,
        *,
        admit: Admit | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.info = ModelInfo(spec.name, "litellm", spec.native_tools)
        self._spec = spec
        self._policy = RetryPolicy(spec.max_retries)
        self._admit = admit
        self._sleep = sleep
        self._uniform = uniform

    def ceiling_usd(self, request: ModelRequest) -> float | None:
        """Return the highest possible cost, or None for a model whose price is unknown.

        Every byte of the request counts as a token that is written to a cache, and the output is
        the most that the model may generate.
        """
        price = self._highest_price
        if price is None:
            return None
        input_usd, output_usd, output_tokens = price
        size = len(json.dumps([request.messages, request.tools], ensure_ascii=False).encode())
        return size * input_usd + (self._spec.max_tokens or output_tokens) * output_usd

    @functools.cached_property
    def _highest_price(self) -> tuple[float, float, int] | None:
        """US dollars per input token and per output token, and the output limit in tokens."""
        spec = self._spec
        try:
            listed: dict[str, Any] = load().get_model_info(spec.name)
        except Exception:  # LiteLLM raises a bare Exception for an unlisted model
            listed = {}
        limit = int(listed.get("max_output_tokens") or _ASSUMED_OUTPUT_TOKENS)
        if spec.input_cost_per_token is not None and spec.output_cost_per_token is not None:
            return spec.input_cost_per_token, spec.output_cost_per_token, limit
        inputs = _prices(listed, "input_cost_per_token", "cache_creation_input_token_cost")
        outputs = _prices(listed, "output_cost_per_token", "output_cost_per_reasoning")
        return (max(inputs), max(outputs), limit) if inputs and outputs else None

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request.

        Raises:
            ContextWindowExceeded: the conversation is longer than the model can read.
            ModelError: no usable answer after the retries that the error's class allows.
            Interrupted: raised by `admit` or `sleep`; NotSent if nothing can have been charged.
        """
        litellm = await asyncio.to_thread(load)

        async def attempt() -> tuple[Any, float]:
            if self._admit is not None:
                size = tokens(request.messages) + (self._spec.max_tokens or 0)
                await self._admit((_provider(self._spec.name), self._spec.name), size)
            started = time.perf_counter()
            async with asyncio.timeout(self._spec.timeout_s):
                response = await litellm.acompletion(**self._arguments(request))
            if not response.choices:
                raise EmptyAnswer("the answer has no choices")
            return response, time.perf_counter() - started

        (response, latency_s), retries = await call_with_retries(
            attempt, self._policy, sleep=self._sleep, uniform=self._uniform
        )
        return self._reply(litellm, response, latency_s, retries)

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        spec = self._spec
        optional = {
            "tools": request.tools or None,
            "api_base": spec.api_base,
            "temperature": spec.temperature,
            "max_tokens": spec.max_tokens,
            "reasoning_effort": spec.reasoning_effort,
        }
        return {
            **(_cache_points() if _takes_cache_markers(spec.name) else {}),
            **spec.extra,
            **{name: value for name, value in optional.items() if value is not None},
            "model": spec.name,
            "messages": request.messages,
            "timeout": spec.timeout_s,
            # Only our own retry policy applies: LiteLLM's would multiply with it.
            "num_retries": 0,
            "max_retries": 0,
        }

    def _reply(
        self, litellm: ModuleType, response: Any, latency_s: float, retries: int
    ) -> ModelReply:
        usage = response.usage.model_dump() if getattr(response, "usage", None) else {}
        cost_usd, source = self._cost(litellm, response, usage)
        choice = response.choices[0]
        return ModelReply(
            message=essential(choice.message.model_dump()),
            usage=usage_of(usage, cost_usd),
            cost_source=source,
            model=response.model or self._spec.name,
            finish_reason=choice.finish_reason,
            latency_s=latency_s,
            retries=retries,
        )

    def _cost(
        self, litellm: ModuleType, response: Any, usage: dict[str, Any]
    ) -> tuple[float | None, CostSource]:
        """Return US dollars and their source.

        In order of preference: the provider's own figure, a declared price, LiteLLM's list, or
        unknown.
        """
        spec = self._spec
        if usage.get("cost") is not None:
            return float(usage["cost"]), "provider"
        if not usage.get("prompt_tokens"):
            return None, "unknown"  # a call without a token count has no price either
        if spec.input_cost_per_token is not None and spec.output_cost_per_token is not None:
            output_usd = usage["completion_tokens"] * spec.output_cost_per_token
            return usage["prompt_tokens"] * spec.input_cost_per_token + output_usd, "declared"
        try:
            cost = litellm.completion_cost(response, model=spec.name)
            known = cost > 0 or _is_free(litellm, spec.name)
        except Exception:  # LiteLLM raises a bare Exception for an unlisted model
            return None, "unknown"
        return (cost, "litellm") if known else (None, "unknown")


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


@functools.cache
def _provider(name: str) -> str:
    """Return LiteLLM's name for the provider of a model, or '' if LiteLLM does not know it."""
    try:
        return str(load().get_llm_provider(name)[1])
    except Exception:  # LiteLLM has several classes for that
        return ""


def _prices(listed: dict[str, Any], *kinds: str) -> list[float]:
    """Return the prices of some kinds in all tiers, in US dollars per token."""
    return [value for name, value in listed.items() if name.startswith(kinds) and value]


def _is_free(litellm: ModuleType, name: str) -> bool:
    """Return True if the price list itself has a price of 0.

    LiteLLM also returns 0 for a name that only resembles a listed one.
    """
    return litellm.get_model_info(name)["key"] in litellm.model_cost
