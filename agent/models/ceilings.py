"""The highest possible cost of a call: its size in tokens, at the prices in use."""

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from agent.models.protocol import ModelRequest
from agent.models.spec import LiteLLMSpec

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

_BYTES_PER_TOKEN = 3
_TOKENS_PER_CALL = 1_000
"""Tokens that providers add to a request with tools: their own instructions and separators."""

_TOKENS_PER_STEP = 256
"""Estimates are multiples of it, so that calls of nearly the same size have one price."""


def estimated_tokens(request: ModelRequest) -> int:
    """Return the size of a request in tokens, a little more than any tokenizer would count.

    English text and code have 3.3 to 4.5 bytes per token. Other scripts have as little as one.
    """
    asked = request.foreign.body if request.foreign else [request.messages, request.tools]
    text = json.dumps(asked, ensure_ascii=False)
    plain = len(text.encode("ascii", "ignore"))
    other = len(text.encode("utf-8", "replace")) - plain
    tokens = plain // _BYTES_PER_TOKEN + other + _TOKENS_PER_CALL
    return -(-tokens // _TOKENS_PER_STEP) * _TOKENS_PER_STEP


@dataclass(frozen=True)
class Ceilings:
    """Limits and prices of one model, declared in the experiment or listed by LiteLLM."""

    litellm: ModuleType
    spec: LiteLLMSpec

    @property
    def context_tokens(self) -> int | None:
        """The context window, or None if it is unknown."""
        return self.spec.context_tokens or self._listed.get("max_input_tokens")

    def max_tokens(self, asked: int | None = None) -> int | None:
        """Return the output limit of a call, or None where nothing is known of the model.

        `asked` lowers it, but never so far that a thinking model cannot answer.
        """
        declared = (self.spec.extra.get(name) for name in OUTPUT_LIMITS)
        own = self.spec.max_tokens or next(filter(None, declared), self._default_max_tokens)
        if own is None or asked is None:
            return own
        return min(own, max(asked, self._least_tokens))

    def usd(self, request: ModelRequest) -> float | None:
        """Return the highest possible cost of a call, or None if its price is unknown."""
        output = self.max_tokens(request.max_tokens)
        if output is None:
            return None
        return self._usd(estimated_tokens(request), output)

    def _usd(self, inputs: int, outputs: int) -> float | None:
        spec = self.spec
        if spec.input_cost_per_token is not None and spec.output_cost_per_token is not None:
            return inputs * spec.input_cost_per_token + outputs * spec.output_cost_per_token
        return self._listed_usd(inputs, outputs) if self.is_priced else None

    @functools.cached_property
    def _listed_usd(self) -> Callable[[int, int], float]:
        """Prices of calls by their sizes. To compute one from LiteLLM's list takes 0.3 ms."""
        return functools.lru_cache(self._dearest_usd)

    def _dearest_usd(self, inputs: int, outputs: int) -> float:
        costs = [self._usd_in_tier(inputs, outputs, dearest=dearest) for dearest in (False, True)]
        return max(cost[0] for cost in costs) + max(cost[1] for cost in costs)

    def _usd_in_tier(self, inputs: int, outputs: int, *, dearest: bool) -> tuple[float, float]:
        """Return what input and output cost by LiteLLM's list, in the tier of a call of that size.

        With `dearest`, all input is written to a cache, and all output is reasoning.
        """
        details = {
            "prompt_tokens_details": {"cache_creation_tokens": inputs},
            "completion_tokens_details": {"reasoning_tokens": outputs},
        }
        usage = self.litellm.Usage(
            prompt_tokens=inputs, completion_tokens=outputs, **(details if dearest else {})
        )
        cost: tuple[float, float] = self.litellm.cost_per_token(
            listed_name(self.spec.name),
            usage_object=usage,
            service_tier=self.spec.extra.get("service_tier"),
        )
        return cost

    @property
    def is_listed(self) -> bool:
        """True if LiteLLM's list has the model, or one that its name resembles."""
        return bool(self._listed)

    @property
    def is_priced(self) -> bool:
        """True if the list has a price, be it 0.

        LiteLLM also returns 0 for a name that only resembles a listed one.
        """
        return self._listed.get("key") in self.litellm.model_cost

    @property
    def _default_max_tokens(self) -> int | None:
        is_known = self._listed or self.spec.input_cost_per_token is not None
        if not is_known:
            return None
        limits = [DEFAULT_MAX_TOKENS]
        if listed := self._listed.get("max_output_tokens"):
            limits.append(int(listed))
        if window := self.context_tokens:
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
        try:
            return dict(self.litellm.get_model_info(listed_name(self.spec.name)))
        except Exception:  # LiteLLM raises a bare Exception for an unlisted model
            return {}


def listed_name(name: str) -> str:
    """Return the name of a model in LiteLLM's list, which does not depend on the API."""
    return name.replace("/responses/", "/", 1)
