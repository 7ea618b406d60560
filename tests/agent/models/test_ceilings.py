"""The highest possible cost of a call, against LiteLLM's tokenizers and prices."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.models.ceilings import DEFAULT_MAX_TOKENS, Ceilings, estimate_tokens
from agent.models.litellm_api import load
from agent.models.protocol import ModelRequest
from agent.models.spec import LiteLLMSpec

ASK = ModelRequest([{"role": "user", "content": "x" * 30_000}])


def ceilings(name: str, **fields: Any) -> Ceilings:
    return Ceilings(load(), LiteLLMSpec(name=name, **fields))


def conversation(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the messages of a recorded run, and its provider's highest count of input tokens."""
    recorded = json.loads(path.read_text())["messages"]
    kept = [
        {name: message[name] for name in ("role", "content", "tool_calls") if message.get(name)}
        for message in recorded
        if message["role"] in ("system", "user", "assistant", "tool")
    ]
    responses = [message.get("extra", {}).get("response") or {} for message in recorded]
    counts = [(response.get("usage") or {}).get("prompt_tokens", 0) for response in responses]
    return kept, max(counts, default=0)


def test_no_real_conversation_has_more_tokens_than_estimated(shared_data: Path) -> None:
    """The estimate exceeds the counts of a tokenizer and of the provider that answered."""
    litellm = load()
    paths = sorted((shared_data / "mini_trajectories").glob("*.traj.json"))[::4]
    assert len(paths) > 2
    counted_by_provider = 0
    for path in paths:
        messages, counted = conversation(path)
        estimate = estimate_tokens(ModelRequest(messages))
        real = litellm.token_counter("gpt-4o", messages=messages)
        assert real < estimate < 1.6 * real + 1000, path.name
        assert counted < estimate, path.name
        counted_by_provider += counted > 0
    assert counted_by_provider > 2


@pytest.mark.parametrize("text", ["数据库连接失败" * 500, "😀" * 1000, "ωмж" * 1000])
def test_other_scripts_are_not_underestimated(text: str) -> None:
    """Text in scripts with fewer bytes per token is not underestimated."""
    messages = [{"role": "user", "content": text}]
    real = load().token_counter("gpt-4", messages=messages)
    assert estimate_tokens(ModelRequest(messages)) > real


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("openai/gpt-5", DEFAULT_MAX_TOKENS),
        ("openai/gpt-4o", 16_384),
        ("gpt-4", 2_048),  # a quarter of its window
        ("openai/nobody-lists-this", DEFAULT_MAX_TOKENS),
    ],
)
def test_a_models_own_lower_output_limit_applies(name: str, tokens: int) -> None:
    """A model's own lower limit applies, and an unknown model has the default."""
    assert ceilings(name).max_tokens() == tokens


def test_the_experiment_sets_the_output_limit() -> None:
    """The experiment's limit may be above the default, and a call may lower it."""
    fields: list[dict[str, Any]] = [
        {"max_tokens": 40_000},
        {"extra": {"max_tokens": 40_000}},
        {"extra": {"max_completion_tokens": 40_000}},
    ]
    for each in fields:
        own = ceilings("openai/gpt-5", **each)
        assert (own.max_tokens(), own.max_tokens(2_048)) == (40_000, 2_048)


@pytest.mark.parametrize(
    "fields",
    [{"reasoning_effort": "high"}, {"extra": {"thinking": {"budget_tokens": 4_096}}}],
)
def test_a_lowered_limit_leaves_room_to_think(fields: dict[str, Any]) -> None:
    """A limit below the thinking budget would be refused, so the budget is added to it."""
    assert ceilings("anthropic/claude-sonnet-4-5", **fields).max_tokens(2_048) == 6_144


@pytest.mark.parametrize(
    ("name", "fields", "input_usd", "output_usd"),
    [
        ("openai/gpt-5", {}, 1.25e-6, 10e-6),
        ("openai/gpt-5", {"api": "responses"}, 1.25e-6, 10e-6),
        ("openai/responses/gpt-5", {}, 1.25e-6, 10e-6),
        ("openai/gpt-5", {"extra": {"service_tier": "priority"}}, 2.5e-6, 20e-6),
        ("openai/gpt-5-mini", {}, 0.25e-6, 2e-6),
        ("anthropic/claude-sonnet-4-5", {}, 3.75e-6, 15e-6),
        ("gemini/gemini-2.5-pro", {}, 1.25e-6, 10e-6),
        (
            "openai/own",
            {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6},
            1e-6,
            2e-6,
        ),
    ],
)
def test_a_call_costs_at_most_its_input_and_its_output_limit(
    name: str, fields: dict[str, Any], input_usd: float, output_usd: float
) -> None:
    """The ceiling uses the prices of the selected tier, with cache writes for Claude."""
    usd = ceilings(name, **fields).usd(ASK)
    inputs = estimate_tokens(ASK)
    assert usd == pytest.approx(inputs * input_usd + DEFAULT_MAX_TOKENS * output_usd)
    lower = ceilings(name, **fields).usd(replace(ASK, max_tokens=2_048))
    assert lower == pytest.approx(inputs * input_usd + 2_048 * output_usd)


def test_a_long_conversation_is_in_a_more_expensive_tier() -> None:
    """Gemini doubles its input price beyond 200,000 tokens."""
    long = ModelRequest([{"role": "user", "content": "x" * 700_000}])
    usd = ceilings("gemini/gemini-2.5-pro").usd(long)
    assert usd == pytest.approx(estimate_tokens(long) * 2.5e-6 + DEFAULT_MAX_TOKENS * 15e-6)


def test_an_unknown_price_stays_unknown() -> None:
    """A model without a known price has no ceiling rather than a ceiling of 0."""
    assert ceilings("openai/nobody-lists-this").usd(ASK) is None


def test_the_window_is_the_models_own() -> None:
    """The model's own context window applies unless the experiment sets another."""
    assert ceilings("openai/gpt-5").context_tokens == 272_000
    assert ceilings("openai/gpt-5", context_tokens=50_000).context_tokens == 50_000
    assert ceilings("openai/nobody-lists-this").context_tokens is None
