"""What is found out about a model before its first call."""

import os
from typing import Any

import pytest

from agent.models.http import load
from flows.display.errors import UsageError
from flows.experiments import cells, declaration
from flows.experiments.models import KEYS, refuse_unusable_models
from flows.experiments.plan import load as chosen
from flows.storage.lake import Lake

OWN = "http://127.0.0.1:9/v1"
GROQ = "groq/llama-3.3-70b-versatile"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.endswith(("_API_KEY", "_TOKEN", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)


def problem(
    tmp_path: Any, arm: dict[str, Any], *, usd: float | None = None, with_keys: bool = True
) -> str:
    """Return the line that refuses an experiment with one arm, or an empty text."""
    budgets = {} if usd is None else {"budgets": {"attempt": {"usd": usd}}}
    experiment = declaration.parse(
        {
            "name": "x",
            "environment": "host",
            "select": {"sample": 1},
            "arms": [{"name": "a", **arm}],
            **budgets,
        },
        "test",
    )
    planned = cells.plan(experiment, chosen(experiment), cells.Place("host"))
    try:
        refuse_unusable_models(experiment, planned, Lake.open(str(tmp_path)), with_keys=with_keys)
    except UsageError as error:
        return str(error)
    return ""


def of_model(tmp_path: Any, **model: Any) -> str:
    return problem(tmp_path, {"agent": "mini", "model": model})


@pytest.mark.parametrize(
    ("name", "environment", "missing"),
    [
        ("openai/gpt-4o", {}, "OPENAI_API_KEY"),
        ("gpt-4o", {"OPENAI_API_KEY": "\t"}, "OPENAI_API_KEY"),
        ("gemini/gemini-2.5-pro", {"GOOGLE_API_KEY": ""}, "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("gemini/gemini-2.5-pro", {"GEMINI_API_KEY": "", "GOOGLE_API_KEY": "k"}, None),
        ("openrouter/openai/gpt-4o", {"OR_API_KEY": "k"}, None),
        ("huggingface/x/y", {"HF_TOKEN": "k"}, None),
        ("anthropic/claude-sonnet-4-5", {"ANTHROPIC_AUTH_TOKEN": "k"}, None),
        ("openai/x", {"OPENAI_BASE_URL": OWN}, None),
        ("ollama/llama3", {"OLLAMA_API_KEY": ""}, None),
        ("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", {}, None),
        ("azure/gpt-4o", {"AZURE_AD_TOKEN": "t"}, None),
    ],
)
def test_a_key_is_missing_if_no_variable_of_the_provider_has_one(
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    environment: dict[str, str],
    missing: str | None,
) -> None:
    """A blank value is none. Providers that take other credentials, or none, are left alone."""
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    found = of_model(tmp_path, name=name)
    if missing is None:
        assert found == ""
    else:
        assert found.startswith(f"arm a: {name} needs {missing}")


@pytest.mark.parametrize(
    "model",
    [
        {"name": "openai/x", "api_base": OWN},
        {"name": "openai/x", "extra": {"base_url": OWN}},
        {"name": "openai/x", "extra": {"extra_headers": {"X-Token": "t"}}},
        {"name": "mine", "api_base": OWN, "extra": {"custom_llm_provider": "openai"}},
        {"name": "mine", "api_base": "https://api.groq.com/openai/v1"},
        {"name": "github_copilot/gpt-4o"},
    ],
)
def test_a_model_that_is_reached_in_another_way_is_left_alone(
    tmp_path: Any, model: dict[str, Any]
) -> None:
    """So is one whose provider only `extra` or the address names. No provider is asked."""
    assert of_model(tmp_path, **model) == ""


@pytest.mark.parametrize("name", ["mine", "nope/x"])
def test_a_model_needs_a_provider(tmp_path: Any, name: str) -> None:
    """An address of one's own does not say which API it has."""
    assert "names no provider" in of_model(tmp_path, name=name, api_base=OWN)


def test_the_models_of_all_roles_are_checked(tmp_path: Any) -> None:
    """A role without a key stops an arm whose own model could be called."""
    own = {"name": "openai/x", "api_base": OWN}
    arm = {
        "agent": "durable",
        "model": own,
        "options": {"profile": {"preset": "lean", "roles": {"adjudicator": {"model": GROQ}}}},
    }
    assert f"{GROQ} needs GROQ_API_KEY" in problem(tmp_path, arm)


def test_where_workers_call_prices_are_checked_and_keys_are_not(tmp_path: Any) -> None:
    """A machine that only coordinates needs no key."""
    listed = {"agent": "mini", "model": "openai/gpt-4o"}
    assert problem(tmp_path, listed, usd=1, with_keys=False) == ""
    unlisted = {"agent": "mini", "model": {"name": "openai/mine", "api_base": OWN}}
    assert "whose price is unknown" in problem(tmp_path, unlisted, usd=1, with_keys=False)


@pytest.mark.full
@pytest.mark.parametrize("provider", sorted(KEYS))
def test_the_variables_agree_with_those_of_litellm(provider: str) -> None:
    """Every variable that LiteLLM misses is one of the provider's."""
    missing = load().validate_environment(f"{provider}/x")["missing_keys"]
    assert missing
    assert set(missing) <= set(KEYS[provider])
