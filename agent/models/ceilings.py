"""The limits and costs of a call: context window, highest possible cost, and cost of the answer."""

import functools
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from agent.models.protocol import CostSource, ModelRequest, Usage
from agent.models.requests import Size
from agent.models.spec import LiteLLMSpec
from agent.models.usage import ReportedUsage

DEFAULT_MAX_TOKENS = 16_384
"""Output limit of a call, unless the experiment sets one or the model's own is lower."""

OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens")
"""Names under which `extra` may hold the limit on the output."""

_ROOM_FOR_OUTPUT = 4
"""The default output limit is at most this fraction of a window, so that small windows have room
for the conversation."""

_THINKING_TOKENS = 4_096
"""The most that LiteLLM lets a Claude model think, for any effort."""

_SPOKEN_TOKENS = 2_048
"""Output besides that thinking. The limit on the output has to be above the one on thinking."""

_LEAST_TOKENS = 256
"""A shorter answer is useless, so the server decides whether the request fits."""

_LARGEST_WINDOW = 2**21
"""Tokens of the largest context window of any model."""

_BYTES_PER_TOKEN = 3
_TOKENS_PER_CALL = 1_000
"""Tokens that providers add to a request with tools: their own instructions and separators."""

_TOKENS_PER_STEP = 256
"""Estimates are multiples of it, so that calls of nearly the same size have one price."""


def estimate_tokens(request: ModelRequest) -> int:
    """Return the size of a request in tokens, a little more than any tokenizer would count.

    English text and code have 3.3 to 4.5 bytes per token. Other scripts have as little as one.
    """
    if request.foreign is not None:
        size = request.foreign.asked.size
    else:
        size = Size()
        size.add_text(request.text)
    tokens = size.ascii_bytes // _BYTES_PER_TOKEN + size.other_bytes + size.image_tokens
    tokens += _TOKENS_PER_CALL
    return -(-tokens // _TOKENS_PER_STEP) * _TOKENS_PER_STEP


@dataclass(frozen=True)
class Ceilings:
    """Limits and prices of one model, declared in the experiment or listed by LiteLLM."""

    litellm: ModuleType
    spec: LiteLLMSpec

    @property
    def context_tokens(self) -> int | None:
        """The context window, or None if it is unknown."""
        declared = self.spec.context_tokens or self.spec.extra.get("num_ctx")
        return declared or self._listed.get("max_input_tokens")

    def max_tokens(self, wanted: int | None = None, window: int | None = None) -> int:
        """Return the output limit of a call. The `window` is that of `find_window`, if known.

        `wanted` lowers it, but never so far that a thinking model cannot answer.
        """
        limit = self._declared_max_tokens or self._get_default_max_tokens(window)
        return limit if wanted is None else min(limit, max(wanted, self._least_tokens))

    def max_tokens_within(self, request: ModelRequest, window: int | None) -> int:
        """Return the output limit of a call, which leaves the window to its input.

        It stays large enough for an answer. The server refuses a request that does not fit.
        """
        limit = self.max_tokens(request.max_tokens, window)
        if window is None:
            return limit
        room = window - estimate_tokens(request)
        return min(limit, max(room, self._least_tokens, _LEAST_TOKENS))

    def usd(self, request: ModelRequest) -> float | None:
        """Return the highest possible cost of a call, or None if its price is unknown."""
        tokens = estimate_tokens(request)
        size = Size() if request.foreign is None else request.foreign.asked.size
        if size.files:  # only the provider knows how many tokens they have
            tokens = max(tokens, self.context_tokens or _LARGEST_WINDOW)
        limit = self.max_tokens(request.max_tokens)
        if self.declared is not None:
            return tokens * self.declared[0] + limit * self.declared[1]
        return self._highest_usd(tokens, limit, size.caches_long) if self.is_priced else None

    @property
    def declared(self) -> tuple[float, float] | None:
        """The declared prices of a token of the input and of the output, US dollars."""
        of_input, of_output = self.spec.input_cost_per_token, self.spec.output_cost_per_token
        return None if of_input is None or of_output is None else (of_input, of_output)

    def _highest_usd(self, inputs: int, outputs: int, for_an_hour: bool) -> float:
        """Return the price of a call, if need be with all input cached and all output reasoning."""
        costs = [
            self.get_listed_usd(Usage(inputs, 0, 0, outputs, 0)),
            self.get_listed_usd(
                Usage(inputs, 0, inputs, outputs, outputs),
                written_for_an_hour=inputs if for_an_hour else 0,
            ),
        ]
        return max(cost[0] for cost in costs) + max(cost[1] for cost in costs)

    def get_listed_usd(self, usage: Usage, *, written_for_an_hour: int = 0) -> tuple[float, float]:
        """Return the costs of input and output by LiteLLM's list, in the tier of the call's size.

        Raises:
            Exception: the list has no price for the model.
        """
        cache: dict[str, Any] = {
            "cached_tokens": usage.cache_read_tokens,
            "cache_creation_tokens": usage.cache_write_tokens,
        }
        if written_for_an_hour:
            rest = (usage.cache_write_tokens or 0) - written_for_an_hour
            cache["cache_creation_token_details"] = {
                "ephemeral_5m_input_tokens": rest,
                "ephemeral_1h_input_tokens": written_for_an_hour,
            }
        cost: tuple[float, float] = self.litellm.cost_per_token(
            get_listed_name(self.spec.name),
            usage_object=self.litellm.Usage(
                prompt_tokens=usage.input_tokens,
                completion_tokens=usage.output_tokens,
                prompt_tokens_details=cache,
                completion_tokens_details={"reasoning_tokens": usage.reasoning_tokens},
            ),
            service_tier=self.spec.extra.get("service_tier"),
        )
        return cost

    @property
    def is_listed(self) -> bool:
        """True if LiteLLM's list has the model, or a similar name."""
        return bool(self._listed)

    @property
    def is_priced(self) -> bool:
        """True if the list has a price, be it 0.

        LiteLLM also returns 0 for a name that only resembles a listed one.
        """
        return self._listed.get("key") in self.litellm.model_cost

    @property
    def _declared_max_tokens(self) -> int | None:
        in_extra = (self.spec.extra.get(name) for name in OUTPUT_LIMITS)
        return self.spec.max_tokens or next(filter(None, in_extra), None)

    def _get_default_max_tokens(self, window: int | None) -> int:
        limits = [DEFAULT_MAX_TOKENS]
        if listed := self._listed.get("max_output_tokens"):
            limits.append(int(listed))
        if window := window or self.context_tokens:
            limits.append(window // _ROOM_FOR_OUTPUT)
        return min(limits)

    @property
    def _least_tokens(self) -> int:
        thinking = self.spec.extra.get("thinking") or {}
        if self.spec.reasoning_effort is None and not thinking:
            return 0
        return int(thinking.get("budget_tokens") or _THINKING_TOKENS) + _SPOKEN_TOKENS

    @functools.cached_property
    def _listed(self) -> dict[str, Any]:
        """LiteLLM's entry of the model; empty for an unlisted one."""
        return find_listed(self.litellm, self.spec.name)


def find_listed(litellm: ModuleType, name: str) -> dict[str, Any]:
    """Return LiteLLM's entry of a model; empty for an unlisted one."""
    try:
        return dict(litellm.get_model_info(get_listed_name(name)))
    except Exception:  # LiteLLM raises a bare Exception for an unlisted model
        return {}


def is_ollama(name: str) -> bool:
    """Return True for a model string of Ollama's own API."""
    return name.startswith(("ollama/", "ollama_chat/"))


def get_listed_name(name: str) -> str:
    """Return the name of a model in LiteLLM's list, which does not depend on the API."""
    return name.replace("/responses/", "/", 1)


def cost_of(reported: ReportedUsage, ceilings: Ceilings) -> tuple[float | None, CostSource]:
    """Return US dollars and their source.

    In order of preference: the provider's own figure above 0, a declared price, LiteLLM's list, a
    reported 0 that nothing contradicts, or unknown.
    """
    cost_usd = reported.usage.cost_usd
    if cost_usd:
        return cost_usd, "provider"
    usage = reported.usage
    # No request has an input of 0 tokens.
    if usage.input_tokens and usage.output_tokens is not None:
        if ceilings.declared is not None:
            of_input, of_output = ceilings.declared
            return usage.input_tokens * of_input + usage.output_tokens * of_output, "declared"
        if (listed := _get_listed_cost(reported, ceilings)) is not None:
            return listed, "litellm"
    if cost_usd == 0 and not reported.has_own_key and ceilings.declared is None:
        return 0.0, "provider"
    return None, "unknown"


def _get_listed_cost(reported: ReportedUsage, ceilings: Ceilings) -> float | None:
    """Return US dollars by LiteLLM's list, or None if it has no price."""
    if not ceilings.is_listed:  # searching the list for every call takes a millisecond
        return None
    counts = {name: count or 0 for name, count in vars(reported.usage).items()}
    hours = reported.written_for_an_hour
    try:
        cost = sum(ceilings.get_listed_usd(Usage(**counts), written_for_an_hour=hours))
    except Exception:  # LiteLLM raises a bare Exception for an unlisted model
        return None
    return cost if cost > 0 or ceilings.is_priced else None
