"""What is found out about a model before its first call."""

import atexit
import os
import socket
from typing import Any

import pytest

from agent.models.ceilings import Ceilings
from agent.models.http import load
from agent.models.protocol import ModelRequest
from agent.models.spec import LiteLLMSpec
from flows.experiments import declaration, models
from flows.experiments.models import ADDRESSES, KEYS, find_model_problems

SERVER = socket.create_server(("127.0.0.1", 0))
"""It takes connections and answers none."""
atexit.register(SERVER.close)

OWN = f"http://127.0.0.1:{SERVER.getsockname()[1]}/v1"
DEAD = "http://127.0.0.1:9/v1"
GROQ = "groq/llama-3.3-70b-versatile"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.endswith(("_API_KEY", "_TOKEN", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HTTPS_PROXY", OWN)  # providers are reached by it, without a network


def problems(*arms: dict[str, Any], usd: float | None = None, calls_here: bool = True) -> list[str]:
    """Return the lines that refuse an experiment with arms a, b and so on."""
    content = {
        "name": "x",
        "environment": "host",
        "arms": [{"name": name, **arm} for name, arm in zip("abc", arms, strict=False)],
        **({} if usd is None else {"budgets": {"attempt": {"usd": usd}}}),
    }
    experiment = declaration.parse(content, "test")
    return find_model_problems(experiment, experiment.arms, calls_here=calls_here)


def of_model(**model: Any) -> list[str]:
    return problems({"agent": "mini", "model": model})


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
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    environment: dict[str, str],
    missing: str | None,
) -> None:
    """A blank value is none. Providers that take other credentials, or none, are left alone."""
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    needs = [] if missing is None else [f"arm a: {name} needs {missing} in the environment"]
    is_local = name.startswith("ollama/")
    assert [line for line in of_model(name=name) if not is_local] == needs


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
def test_a_model_that_is_reached_in_another_way_is_left_alone(model: dict[str, Any]) -> None:
    """So is one whose provider only `extra` or the address names. No provider is asked."""
    assert of_model(**model) == []


@pytest.mark.parametrize("name", ["mine", "nope/x"])
def test_a_model_needs_a_provider(name: str) -> None:
    """An address of one's own does not say which API it has."""
    [line] = of_model(name=name, api_base=OWN)
    assert "names no provider" in line


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (DEAD, "127.0.0.1:9 refuses connections"),
        ("http://nowhere.invalid/v1", "the name nowhere.invalid cannot be resolved"),
        ("127.0.0.1/v1", "127.0.0.1/v1 is not an address: write it as http://HOST:PORT/PATH"),
        ("http://[/v1", "http://[/v1 is not an address: write it as http://HOST:PORT/PATH"),
    ],
)
def test_a_server_has_to_be_reached(address: str, why: str) -> None:
    """A wrong address is one line for all arms that use it."""
    arm = {"agent": "mini", "model": {"name": "openai/x", "api_base": address}}
    assert problems(arm, {**arm, "agent": "loop"}) == [
        f"arms a and b: openai/x cannot be reached: {why}; start it, or correct api_base"
    ]


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "ALL_PROXY"])
def test_a_provider_has_to_be_reached(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does the proxy on the way to it, unless NO_PROXY names the provider."""
    monkeypatch.delenv("HTTPS_PROXY")
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.setenv("GROQ_API_KEY", "k")
    why = "cannot be reached: 127.0.0.1:9 refuses connections; check the network"
    assert of_model(name=GROQ) == [f"arm a: {GROQ} {why}"]
    monkeypatch.setitem(ADDRESSES, "groq", OWN.replace("http:", "https:"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert of_model(name=GROQ) == []


def test_all_that_is_wrong_is_said_at_once() -> None:
    """A line names each of the key, the address and the price."""
    model = {"name": "openai/x", "extra": {"base_url": DEAD}}
    several = problems(
        {"agent": "mini", "model": "openai/gpt-4o"}, {"agent": "mini", "model": model}, usd=1
    )
    assert [line.partition(": ")[0] for line in several] == ["arm a", "arm b", "arm b"]


def test_the_models_of_all_roles_are_checked() -> None:
    """A role without a key stops an arm whose own model could be called."""
    own = {"name": "openai/x", "api_base": OWN}
    arm = {
        "agent": "durable",
        "model": own,
        "options": {"profile": {"preset": "lean", "roles": {"adjudicator": {"model": GROQ}}}},
    }
    assert problems(arm) == [f"arm a: {GROQ} needs GROQ_API_KEY in the environment"]


def test_where_workers_call_only_prices_are_checked() -> None:
    """A machine that only coordinates needs no key, and no way to the server."""
    listed = {"agent": "mini", "model": "openai/gpt-4o"}
    assert problems(listed, usd=1, calls_here=False) == []
    unlisted = {"agent": "mini", "model": {"name": "openai/mine", "api_base": DEAD}}
    [line] = problems(unlisted, usd=1, calls_here=False)
    assert "whose price is unknown" in line


@pytest.mark.full
@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "openrouter", "mistral"])
def test_a_price_in_the_file_is_a_price_for_litellm(provider: str) -> None:
    """The shortcut through the file allows no budget that could not be kept."""
    for name, entry in models._read_prices().items():
        if entry.get("litellm_provider") == provider and entry.get("mode") == "chat":
            spec = LiteLLMSpec(name=f"{provider}/{name.removeprefix(f'{provider}/')}")
            if models._has_price(spec, provider):
                assert Ceilings(load(), spec).usd(ModelRequest([])) is not None, name


@pytest.mark.full
@pytest.mark.parametrize("provider", sorted(ADDRESSES.keys() & KEYS.keys()))
def test_the_addresses_agree_with_those_of_litellm(provider: str) -> None:
    """LiteLLM names the addresses of most providers."""
    address = load().get_llm_provider(f"{provider}/x")[3]
    assert address is None or address.startswith(ADDRESSES[provider])


@pytest.mark.full
@pytest.mark.parametrize("provider", sorted(KEYS))
def test_the_variables_agree_with_those_of_litellm(provider: str) -> None:
    """Every variable that LiteLLM misses is one of the provider's."""
    missing = load().validate_environment(f"{provider}/x")["missing_keys"]
    assert missing
    assert set(missing) <= set(KEYS[provider])


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"name": "ollama_chat/x"}, ["has no context_tokens"]),
        ({"name": "ollama_chat/x", "context_tokens": 8192}, []),
        ({"name": "ollama_chat/x", "extra": {"num_ctx": 8192}}, []),
        ({"name": "ollama/x", "context_tokens": 8192}, ["name it ollama_chat/"]),
        ({"name": "ollama/x", "context_tokens": 8192, "native_tools": False}, []),
    ],
)
def test_ollama_needs_a_window_and_the_api_with_tools(
    model: dict[str, Any], words: list[str]
) -> None:
    """Otherwise it would cut conversations, or get no tools, without a word."""
    lines = of_model(**model, api_base=OWN)
    assert len(lines) == len(words)
    assert all(word in line for word, line in zip(words, lines, strict=True))
