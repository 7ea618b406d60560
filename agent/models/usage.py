"""Validates the figures of a provider: tokens and costs of any type become known or unknown.

An unusable number is unknown and never raises, because its answer has been paid for.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.models.protocol import Usage
from agent.models.requests import Dialect

MOST_TOKENS = 10**9
MOST_USD = 1e6
"""More than one call can use or cost. A larger figure is ignored."""

Places = list[Mapping[str, Any]]

_INPUT = ("prompt_tokens", "input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens")
_READ = ("cached_tokens", "cache_read_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
_WRITTEN = ("cache_creation_tokens", "cache_write_tokens", "cache_creation_input_tokens")
_DETAILS_OF_INPUT = ("prompt_tokens_details", "input_tokens_details")
_DETAILS_OF_OUTPUT = ("completion_tokens_details", "output_tokens_details")


@dataclass(frozen=True)
class ReportedUsage:
    """The usable figures that a provider reports of one call."""

    usage: Usage
    """The tokens of the call, and the cost that the provider states, or None."""
    written_for_an_hour: int = 0
    """The part of the cache writes that is kept for an hour, which has another price."""
    has_own_key: bool = False
    """True if a router says that another account is charged, whose cost it does not state."""


def read_usage(block: Any, *, excludes_cache: bool = False) -> ReportedUsage:
    """Return the figures of a provider's usage block, whatever names it uses.

    `excludes_cache` is for a dialect that does not count cached tokens as input. In the other
    dialects, the total decides, or a cache that is larger than the input.
    """
    if not isinstance(block, Mapping) or not block:
        return ReportedUsage(Usage(None, None, None, None, None, None))
    places = [_inner(block, _DETAILS_OF_INPUT), block]
    # No request has an input of 0 tokens: a server that says so has not counted.
    prompt = _first([block], _INPUT) or None
    output = _first([block], _OUTPUT)
    if prompt is None:
        output = output or None
    read, written = _part(prompt, places, _READ), _part(prompt, places, _WRITTEN)
    places = [_inner(block, _DETAILS_OF_OUTPUT), block]
    reasoning = _part(output, places, ("reasoning_tokens",))
    total = _first([block], ("total_tokens",))
    cached = (read or 0) + (written or 0)
    if prompt is not None and cached:
        is_separate = total is not None and output is not None and total == prompt + cached + output
        if excludes_cache or is_separate or cached > prompt:
            prompt += cached
    if output is not None and reasoning:
        is_separate = (
            total is not None and prompt is not None and total == prompt + output + reasoning
        )
        if is_separate or reasoning > output:
            output += reasoning
    cost = block.get("cost")
    cost_usd = _dollars(cost.get("total_cost") if isinstance(cost, Mapping) else cost)
    # A router with the user's key states its fee as `cost`, and the provider's charge separately.
    upstream_usd = _dollars(_inner(block, ("cost_details",)).get("upstream_inference_cost"))
    has_own_key = False
    if block.get("is_byok") is True or (cost_usd == 0 and upstream_usd):
        has_own_key = upstream_usd is None
        cost_usd = None if upstream_usd is None else (cost_usd or 0.0) + upstream_usd
    hours = _count(_inner(block, ("cache_creation",)).get("ephemeral_1h_input_tokens"))
    return ReportedUsage(
        Usage(prompt, read, written, output, reasoning, cost_usd),
        min(hours or 0, written or 0),
        has_own_key,
    )


def usage_block(dialect: Dialect, usage: Usage) -> dict[str, Any]:
    """Return tokens in the form of a dialect. Clients require them, so unknown numbers are 0."""
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    inputs, outputs = usage.input_tokens or 0, usage.output_tokens or 0
    if dialect == "messages":
        return {
            "input_tokens": max(0, inputs - read - written),
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": outputs,
        }
    if dialect == "gemini":
        thoughts = min(usage.reasoning_tokens or 0, outputs)
        return {
            "promptTokenCount": inputs,
            "cachedContentTokenCount": read,
            "candidatesTokenCount": outputs - thoughts,
            "thoughtsTokenCount": thoughts,
            "totalTokenCount": inputs + outputs,
        }
    names = {"chat": ("prompt_tokens", "completion_tokens")}
    of_input, of_output = names.get(dialect, ("input_tokens", "output_tokens"))
    return {
        of_input: inputs,
        of_output: outputs,
        "total_tokens": inputs + outputs,
        f"{of_input}_details": {"cached_tokens": read},
        f"{of_output}_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
    }


def google_usage(block: Any) -> Any:
    """Return Google's usage block under the usual names.

    It leaves out counts of 0, and its count of the output is without thoughts.
    """
    if not isinstance(block, Mapping):
        return block
    names = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount")
    prompt, spoken, thoughts, total = (_count(block.get(name, 0)) for name in names)
    output = None if spoken is None or thoughts is None else spoken + thoughts
    if thoughts and None not in (prompt, spoken) and total == (prompt or 0) + (spoken or 0):
        output = spoken  # some models count them in the output
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "cached_tokens": block.get("cachedContentTokenCount"),
        "reasoning_tokens": thoughts,
    }


def _inner(block: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    values = (block.get(name) for name in names)
    return next((value for value in values if isinstance(value, Mapping)), {})


def _first(places: Places, names: tuple[str, ...]) -> int | None:
    """Return the first count that is not 0, else 0 if there is one, or None."""
    counts = [
        count
        for place in places
        for name in names
        if (count := _count(place.get(name))) is not None
    ]
    return next((count for count in counts if count), 0 if counts else None)


def _part(whole: int | None, places: Places, names: tuple[str, ...]) -> int | None:
    """Return the count of a part, which providers leave out where there is none of it."""
    part = _first(places, names)
    is_left_out = all(place.get(name) is None for place in places for name in names)
    return 0 if part is None and whole is not None and is_left_out else part


def _count(value: Any) -> int | None:
    number = _number(value)
    if number is None or number != int(number) or not 0 <= number <= MOST_TOKENS:
        return None
    return int(number)


def _dollars(value: Any) -> float | None:
    number = _number(value)
    return float(number) if number is not None and 0 <= number <= MOST_USD else None


def _number(value: Any) -> float | int | None:
    """Return a finite number, which can also be a string."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
