"""The door of providers: figures of any kind, and the cost of an answer by all evidence."""

import math
from typing import Any

import pytest

from agent.models.ceilings import Ceilings, cost_of
from agent.models.http import load
from agent.models.spec import LiteLLMSpec
from agent.models.usage import read_usage

ODD = [None, True, "", "many", [], [1], {}, -1, 0.5, math.nan, math.inf, -math.inf, 10**18, "1e99"]
TOKENS = {"prompt_tokens": 1000, "completion_tokens": 100}
DECLARED = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-5}
LISTED_USD = 1000 * 2.5e-6 + 100 * 1e-5
DECLARED_USD = 1000 * 1e-6 + 100 * 1e-5


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_a_count_that_cannot_be_used_is_unknown(name: str, odd: Any) -> None:
    """It is not 0, it does not raise, and the other counts stay what they are."""
    usage = read_usage({**TOKENS, name: odd}).usage
    counts = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
    assert counts == {**TOKENS, name: None}


@pytest.mark.parametrize("block", [None, "", "usage", [], [1], {}, 7, {"tokens": 5}])
def test_a_usage_that_is_none_is_unknown(block: Any) -> None:
    """A server that does not count has not counted 0."""
    usage = read_usage(block).usage
    assert {*vars(usage).values()} == {None}


@pytest.mark.parametrize(
    ("block", "given", "read"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 800}}, 1000, 800),
        ({"input_tokens_details": {"cached_tokens": 800}}, 1000, 800),
        ({"cached_tokens": 800}, 1000, 800),
        ({"prompt_cache_hit_tokens": 800, "prompt_cache_miss_tokens": 200}, 1000, 800),
        ({"prompt_tokens_details": {"cached_tokens": 0}, "cached_tokens": 800}, 1000, 800),
        ({"cached_tokens": 12_000}, 13_000, 12_000),
        ({"cached_tokens": 800, "total_tokens": 1900}, 1800, 800),
        ({"cached_tokens": 800, "total_tokens": 1100}, 1000, 800),
        ({"cached_tokens": "800"}, 1000, 800),
        ({"cached_tokens": "many"}, 1000, None),
        ({}, 1000, 0),
    ],
)
def test_cached_tokens_count_once(block: dict[str, Any], given: int, read: int | None) -> None:
    """Wherever a provider states them, they are part of the input once."""
    usage = read_usage({**TOKENS, **block}).usage
    assert (usage.input_tokens, usage.cache_read_tokens) == (given, read)


def test_messages_count_the_cache_beside_the_input() -> None:
    """Anthropic does not count cache reads and writes as input."""
    block = {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 40,
        "cache_creation": {"ephemeral_1h_input_tokens": 30},
    }
    reported = read_usage(block, excludes_cache=True)
    assert (reported.usage.input_tokens, reported.written_for_an_hour) == (150, 30)


def test_reasoning_beside_the_output_is_part_of_it() -> None:
    """Some providers leave it out of the output that they bill."""
    block = {**TOKENS, "completion_tokens_details": {"reasoning_tokens": 400}}
    assert read_usage(block).usage.output_tokens == 500


def ceilings(**fields: Any) -> Ceilings:
    return Ceilings(load(), LiteLLMSpec.model_validate({"name": "openai/gpt-4o", **fields}))


@pytest.mark.parametrize(
    ("fields", "stated", "usd", "source"),
    [
        ({}, {"cost": 0.5}, 0.5, "provider"),
        ({}, {"cost": "0.5"}, 0.5, "provider"),
        (DECLARED, {"cost": 0.5}, 0.5, "provider"),
        (DECLARED, {"cost": 0}, DECLARED_USD, "declared"),
        ({}, {"cost": 0}, LISTED_USD, "litellm"),
        ({}, {"cost": 0, "is_byok": True}, LISTED_USD, "litellm"),
        *(({}, {"cost": odd}, LISTED_USD, "litellm") for odd in ODD if odd != 0.5),
        (DECLARED, {}, DECLARED_USD, "declared"),
        (
            {},
            {"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.36}},
            0.37,
            "provider",
        ),
        ({}, {"cost": 0, "cost_details": {"upstream_inference_cost": 0.36}}, 0.36, "provider"),
        (
            DECLARED,
            {"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": "x"}},
            DECLARED_USD,
            "declared",
        ),
        ({"name": "openai/unlisted"}, {"cost": 0}, 0.0, "provider"),
        ({"name": "openai/unlisted"}, {"cost": 0, "is_byok": True}, None, "unknown"),
        ({"name": "openai/unlisted"}, {}, None, "unknown"),
    ],
)
def test_the_cost_of_an_answer_weighs_all_evidence(
    fields: dict[str, Any], stated: dict[str, Any], usd: float | None, source: str
) -> None:
    """A reported 0 does not overrule a declared or a listed price, and the source is recorded."""
    cost_usd, found = cost_of(read_usage({**TOKENS, **stated}), ceilings(**fields))
    assert found == source
    assert cost_usd == (None if usd is None else pytest.approx(usd))


@pytest.mark.parametrize("fields", [{}, DECLARED])
def test_without_counts_there_is_no_price(fields: dict[str, Any]) -> None:
    """A declared price times an unknown number of tokens is unknown, and not $0."""
    assert cost_of(read_usage(None), ceilings(**fields)) == (None, "unknown")
    assert cost_of(read_usage({"prompt_tokens": 9}), ceilings(**fields)) == (None, "unknown")
