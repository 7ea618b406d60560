"""Convert the usage block of an OpenAI-style response to `Usage`."""

from collections.abc import Mapping
from typing import Any

from agent.models.protocol import Usage


def usage_of(block: Mapping[str, Any], cost_usd: float | None) -> Usage:
    """Return tokens by kind, with cached ones included in the input tokens.

    LiteLLM and OpenRouter both count cache reads and writes as part of `prompt_tokens`, regardless
    of the provider behind them, so nothing is added up here.
    """
    if not block.get("prompt_tokens"):  # LiteLLM fills in zeros where a server reports nothing
        return Usage(None, None, None, None, None, cost_usd)
    prompt = block.get("prompt_tokens_details") or {}
    output = block.get("completion_tokens_details") or {}
    return Usage(
        input_tokens=block.get("prompt_tokens") or 0,
        cache_read_tokens=_first(prompt.get("cached_tokens"), block.get("cache_read_input_tokens")),
        cache_write_tokens=_first(
            prompt.get("cache_creation_tokens"),
            prompt.get("cache_write_tokens"),
            block.get("cache_creation_input_tokens"),
        ),
        output_tokens=block.get("completion_tokens") or 0,
        reasoning_tokens=_first(output.get("reasoning_tokens")),
        cost_usd=cost_usd,
    )


def _first(*counts: int | None) -> int:
    return next((count for count in counts if count), 0)
