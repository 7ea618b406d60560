"""A fuzz of the door of programs: hostile bodies, to real providers' transports over HTTP.

A provider bills the worst that a request allows, and a second server plays a foreign host.
"""

import asyncio
import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.errors import ContextWindowExceeded, ModelError
from agent.models.dialects import answering
from agent.models.http import load
from agent.models.litellm_api import LiteLLMModel
from agent.models.protocol import Foreign, ModelRequest
from agent.models.spec import LiteLLMSpec
from tests.servers.providers import Listener, Sent, answer_in, dialect_at

KEYS = {
    "OPENAI_API_KEY": "key-of-openai",
    "ANTHROPIC_API_KEY": "key-of-anthropic",
    "DEEPSEEK_API_KEY": "key-of-deepseek",
    "OPENROUTER_API_KEY": "key-of-openrouter",
    "GEMINI_API_KEY": "key-of-gemini",
}
MODELS = {
    "openai/gpt-4o-mini": "key-of-openai",
    "anthropic/claude-sonnet-4-5": "key-of-anthropic",
    "deepseek/deepseek-chat": "key-of-deepseek",
    "openrouter/openai/gpt-4o": "key-of-openrouter",
    "gemini/gemini-2.5-flash": "key-of-gemini",
}
SENT_FIELDS = {
    "chat": {
        *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "temperature"),
        *("top_p", "top_k", "seed", "stop", "presence_penalty", "frequency_penalty"),
        *("reasoning_effort", "thinking", "verbosity", "response_format"),
        *("prompt_cache_key", "max_tokens", "max_completion_tokens", "usage"),
    },
    "messages": {
        *("model", "messages", "system", "tools", "tool_choice", "temperature", "top_p", "top_k"),
        *("stop_sequences", "thinking", "output_config", "output_format", "context_management"),
        *("cache_control", "max_tokens"),
    },
    "responses": {
        *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls"),
        *("temperature", "top_p", "reasoning", "text", "truncation"),
        *("prompt_cache_key", "store", "include", "max_output_tokens"),
    },
    "gemini": {
        *("contents", "systemInstruction", "system_instruction", "tools", "toolConfig"),
        *("generationConfig", "safetySettings"),
    },
}
LIMITS = {"chat": ("max_tokens", "max_completion_tokens"), "messages": ("max_tokens",)}
FOREIGN = "FOREIGN"
"""Stands for the address of the foreign host in generated bodies."""


def bill(sent: Sent) -> dict[str, Any]:
    """Answer with the largest usage that the request allows."""
    dialect = dialect_at(sent.path)
    body, text = sent.body, json.dumps(sent.body, ensure_ascii=False)
    read = len(text.encode()) // 4
    if dialect == "gemini":
        config = body["generationConfig"]
        wrote = config.get("max_output_tokens") or config["maxOutputTokens"]
        counted = {"promptTokenCount": read, "candidatesTokenCount": wrote}
        return answer_in("gemini", {**counted, "totalTokenCount": read + wrote})
    if dialect == "responses":
        usage = {"input_tokens": read, "output_tokens": body["max_output_tokens"]}
        return answer_in(dialect, {**usage, "total_tokens": sum(usage.values())})
    wrote = min(body[name] for name in LIMITS[dialect] if name in body)
    if dialect == "messages":
        return answer_in(dialect, {"input_tokens": read, "output_tokens": wrote})
    wrote *= body.get("n", 1)
    usage = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
    return answer_in("chat", usage)


@pytest.fixture(scope="module")
def provider() -> Iterator[Listener]:
    listener = Listener(bill)
    yield listener
    listener.close()


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner, pytest.MonkeyPatch.context() as patch:
        for name, key in KEYS.items():
            patch.setenv(name, key)
        yield runner


def names() -> list[str]:
    """Return the names of everything that LiteLLM takes by name, and of options of providers."""
    from litellm.types.utils import all_litellm_params

    known = {*inspect.signature(load().acompletion).parameters, *all_litellm_params}
    others = {
        *("models", "route", "plugins", "provider", "transforms", "service_tier", "store", "n"),
        *("previous_response_id", "prompt", "conversation", "background", "mcp_servers", "speed"),
        *("container", "web_search_options", "extra_body", "extra_headers", "extra_query"),
        *("safetySettings", "tool_config", "cachedContent", "labels", "vertex_location"),
    }
    return sorted((known | others) - {"self", "messages", "model", "kwargs"})


ADDRESS = st.sampled_from([FOREIGN, f"{FOREIGN}/v1", f"{FOREIGN}/image.png"])
SCALAR = st.one_of(
    ADDRESS,
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["priority", "auto", "web", "required", "gpt-5-pro"]),
)
JSON = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["type", "url", "api_base", "model", "name", "id", "data", "x"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)
EXTRAS = st.dictionaries(st.deferred(lambda: st.sampled_from(names())), JSON, max_size=4)
TEXT = st.text(max_size=60)
PARTS: dict[str, Any] = {
    "chat": st.one_of(
        st.builds(lambda text: {"type": "text", "text": text}, TEXT),
        st.builds(lambda url: {"type": "image_url", "image_url": {"url": url}}, ADDRESS),
        st.builds(lambda url: {"type": "file", "file": {"file_data": url}}, ADDRESS),
        JSON,
    ),
    "messages": st.one_of(
        st.builds(lambda text: {"type": "text", "text": text}, TEXT),
        st.builds(lambda url: {"type": "image", "source": {"type": "url", "url": url}}, ADDRESS),
        st.builds(lambda url: {"type": "document", "source": {"type": "url", "url": url}}, ADDRESS),
        JSON,
    ),
    "responses": st.one_of(
        st.builds(lambda text: {"type": "input_text", "text": text}, TEXT),
        st.builds(lambda url: {"type": "input_image", "image_url": url}, ADDRESS),
        st.builds(lambda url: {"type": "input_file", "file_url": url}, ADDRESS),
        JSON,
    ),
    "gemini": st.one_of(
        st.builds(lambda text: {"text": text}, TEXT),
        st.builds(lambda url: {"fileData": {"fileUri": url}}, ADDRESS),
        st.builds(lambda url: {"inline_data": {"mime_type": "image/png", "data": url}}, ADDRESS),
        JSON,
    ),
}
OWN_TOOL: dict[str, dict[str, Any]] = {
    "chat": {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
    "messages": {"name": "f", "input_schema": {"type": "object"}},
    "responses": {"type": "function", "name": "f", "parameters": {"type": "object"}},
    "gemini": {"functionDeclarations": [{"name": "f", "parameters": {"type": "object"}}]},
}
LIMIT = st.one_of(st.integers(-10, 300_000), JSON)


@st.composite
def bodies(draw: Any) -> tuple[str, dict[str, Any]]:
    """Return a request of a dialect with odd fields in all of its places."""
    dialect = draw(st.sampled_from(["chat", "messages", "responses", "gemini"]))
    if dialect == "gemini":
        parts = draw(st.lists(PARTS[dialect], min_size=1, max_size=3))
        talk = {"role": "user", "parts": parts, **draw(st.one_of(st.just({}), EXTRAS))}
        limits = {"maxOutputTokens": draw(LIMIT), **draw(EXTRAS)}
        return dialect, {
            "contents": [talk],
            "tools": draw(st.sampled_from([[OWN_TOOL[dialect]], [OWN_TOOL[dialect], draw(JSON)]])),
            "generationConfig": draw(st.sampled_from([limits, draw(JSON)])),
            **draw(EXTRAS),
        }
    content = draw(st.one_of(TEXT, st.lists(PARTS[dialect], min_size=1, max_size=3)))
    message = {"role": "user", "content": content, **draw(st.one_of(st.just({}), EXTRAS))}
    body: dict[str, Any] = {"input" if dialect == "responses" else "messages": [message]}
    if draw(st.booleans()):
        own = {**OWN_TOOL[dialect], **draw(st.one_of(st.just({}), EXTRAS))}
        body["tools"] = draw(st.sampled_from([[own], [own, draw(JSON)]]))
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        if draw(st.booleans()):
            body[name] = draw(LIMIT)
    return dialect, {**body, **draw(EXTRAS)}


def with_address(value: Any, address: str) -> Any:
    if isinstance(value, dict):
        return {name: with_address(each, address) for name, each in value.items()}
    if isinstance(value, list):
        return [with_address(each, address) for each in value]
    return value.replace(FOREIGN, address) if isinstance(value, str) else value


def spec_of(name: str, api: str, address: str) -> LiteLLMSpec:
    base = address if name.startswith(("anthropic", "gemini")) else f"{address}/v1"
    spec: dict[str, Any] = {"name": name, "api": api, "api_base": base}
    if name.startswith("openrouter/"):  # the list has no prices of it
        spec |= {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-5}
    return LiteLLMSpec.model_validate(spec)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("name", "api"), [*((name, "chat") for name in MODELS), ("openai/gpt-5-mini", "responses")]
)
def test_nothing_of_a_hostile_body_gets_past_the_door(
    name: str, api: str, provider: Listener, elsewhere: Listener, runner: asyncio.Runner
) -> None:
    """No foreign host is asked, only named fields are sent, with one key and one model, prices stay
    what they are, and no request costs more than was reserved for it."""
    model = LiteLLMModel(spec_of(name, api, provider.address))
    prices = json.dumps(load().model_cost, sort_keys=True, default=str)
    answered = 0

    @settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
    @given(bodies())
    def check(given_body: tuple[Any, dict[str, Any]]) -> None:
        nonlocal answered
        dialect, body = given_body
        foreign = Foreign(dialect, with_address(body, elsewhere.address), {})
        provider.sent.clear()
        asked = answering(model, foreign)
        try:
            request = ModelRequest([], max_tokens=foreign.asked.output_limit, foreign=foreign)
            reserved = asked.ceiling_usd(request)
            reply = runner.run(asked.complete(request))
        except (ModelError, ContextWindowExceeded):
            assert provider.sent == []  # this provider refuses nothing
            return
        answered += 1
        [sent] = provider.sent
        check_sent(sent, name)
        assert reply.usage.cost_usd is not None
        assert reserved is not None
        assert reserved >= reply.usage.cost_usd

    check()
    assert answered > 100
    assert elsewhere.sent == []
    assert json.dumps(load().model_cost, sort_keys=True, default=str) == prices


def check_sent(sent: Sent, name: str) -> None:
    allowed = SENT_FIELDS[dialect_at(sent.path)]
    assert sent.body.keys() <= allowed, sent.body.keys() - allowed
    key = MODELS.get(name, "key-of-openai")
    shown = json.dumps(sent.headers)
    assert key in shown or key in sent.path
    assert not any(other in shown + sent.path for other in KEYS.values() if other != key)
    assert sent.body.get("model", name).rpartition("/")[2] == name.rpartition("/")[2]
