"""Both ways to a provider, of our own arms and of programs, are one HTTP client."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agent.errors import ModelError
from agent.models.dialects import answering
from agent.models.litellm_api import LiteLLMModel
from agent.models.pacing import Sending
from agent.models.protocol import Foreign, ModelReply, ModelRequest
from agent.models.spec import LiteLLMSpec
from tests.servers.providers import Listener, answer_in, dialect_at
from tests.waiting import no_sleep

HELLO = [{"role": "user", "content": "Hello."}]
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"messages": HELLO},
    "messages": {"messages": HELLO, "max_tokens": 100},
    "responses": {"input": "Hello."},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]},
}
SPECS: list[dict[str, Any]] = [
    {"name": "openai/gpt-4o"},
    {"name": "openai/gpt-5-mini", "api": "responses"},
    {"name": "anthropic/claude-sonnet-4-5"},
    {"name": "deepseek/deepseek-chat"},
    {"name": "gemini/gemini-2.5-flash"},
]
ARM = "arm"
ASKS = [ARM, *BODIES]


@pytest.fixture
def provider() -> Iterator[Listener]:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "input_tokens": 9, "output_tokens": 2}
    listener = Listener(lambda sent: answer_in(dialect_at(sent.path), usage))
    yield listener
    listener.close()


async def ask(spec: dict[str, Any], address: str, asks: str) -> ModelReply:
    base = address if spec["name"].startswith("anthropic") else f"{address}/v1"
    model = LiteLLMModel(
        LiteLLMSpec.model_validate({**spec, "api_base": base, "max_retries": 1}),
        Sending(sleep=no_sleep),
    )
    if asks == ARM:
        return await model.complete(ModelRequest(HELLO))
    foreign = Foreign(asks, BODIES[asks], {})  # type: ignore[arg-type]
    return await answering(model, foreign).complete(ModelRequest([], foreign=foreign))


@pytest.mark.parametrize("asks", ASKS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec["name"]))
async def test_a_redirect_takes_no_key_to_another_host(
    provider: Listener, spec: dict[str, Any], asks: str
) -> None:
    """The redirect is an error in one line, and the other host is never asked."""
    elsewhere = Listener()
    provider.status, provider.headers = 307, {"Location": f"{elsewhere.address}/v1/messages"}
    with pytest.raises(ModelError) as caught:
        await ask(spec, provider.address, asks)
    elsewhere.close()
    assert elsewhere.sent == []
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", [None, "", " "])
@pytest.mark.parametrize("asks", ["chat", "responses", ARM])
@pytest.mark.parametrize("spec", SPECS[:2], ids=lambda spec: str(spec["name"]))
async def test_a_server_without_keys_is_in_reach(
    provider: Listener,
    monkeypatch: pytest.MonkeyPatch,
    spec: dict[str, Any],
    asks: str,
    key: str | None,
) -> None:
    """An empty key sends no invalid header, and the server answers."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    reply = await ask(spec, provider.address, asks)
    assert reply.message["content"] == "Hello."
    assert len(provider.sent) == 1
    assert provider.sent[0].headers.get("authorization", "").strip() != "Bearer"


@pytest.mark.parametrize("asks", ["messages", ARM])
async def test_a_keyless_server_of_messages_is_in_reach(
    provider: Listener, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    """Programs and our own arms reach a custom server with Anthropic's dialect."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    reply = await ask(SPECS[2], provider.address, asks)
    assert reply.message["content"] == "Hello."


@pytest.mark.parametrize("asks", [ARM, "chat"])
async def test_a_cut_connection_is_not_sent_again_behind_the_policy(
    provider: Listener, asks: str
) -> None:
    """The retry policy decides about each request that may be paid."""
    provider.drops = True
    with pytest.raises(ModelError):
        await ask(SPECS[0], provider.address, asks)
    assert len(provider.sent) == 2  # the first, and one retry


@pytest.mark.parametrize("asks", [ARM, "chat"])
async def test_both_ways_use_the_proxy_of_the_environment(
    provider: Listener, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    """A request to another machine goes through the proxy, with its whole address."""
    monkeypatch.setenv("http_proxy", provider.address)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    reply = await ask(SPECS[0], "http://models.invalid", asks)
    assert reply.message["content"] == "Hello."
    assert httpx.URL(provider.sent[-1].path).host == "models.invalid"
