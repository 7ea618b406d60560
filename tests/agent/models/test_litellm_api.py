"""The LiteLLM provider over real HTTP, against a local server that misbehaves on request."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agent.errors import AgentError, ContextWindowExceeded, ModelError
from agent.models.http import load
from agent.models.litellm_api import LiteLLMModel
from agent.models.pacing import Sending
from agent.models.protocol import ModelReply, ModelRequest
from agent.models.spec import LiteLLMSpec
from tests.agent.conftest import KEY
from tests.servers import openai_server as api
from tests.waiting import STARVED_S, no_sleep, until

BASH = {
    "type": "function",
    "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}},
}
REQUEST = ModelRequest([{"role": "user", "content": "List the files."}], [BASH])


async def ask(server: Any, **fields: Any) -> ModelReply:
    """Make one call, without pauses between retries."""
    spec = LiteLLMSpec(**{"name": "openai/test-model", "api_base": server.url, **fields})
    return await LiteLLMModel(spec, Sending(sleep=no_sleep)).complete(REQUEST)


@pytest.fixture
def answer() -> Iterator[Any]:
    with api.OpenAIServer([api.command("ls")]) as server:
        yield server


async def test_a_call_carries_messages_tools_and_parameters(answer: Any) -> None:
    """The HTTP request contains the arm's request and the specification's parameters."""
    await ask(answer, temperature=0.5, max_tokens=99, extra={"seed": 3})
    sent = answer.requests[0]
    assert sent["messages"] == REQUEST.messages
    assert sent["tools"] == [BASH]
    assert (sent["temperature"], sent["seed"]) == (0.5, 3)
    assert 99 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    assert answer.request_headers[0]["authorization"] == f"Bearer {KEY}"


async def test_the_reply_is_what_must_be_sent_back(answer: Any) -> None:
    """The message has a role, content and tool calls, and no empty fields."""
    reply = await ask(answer)
    assert set(reply.message) == {"role", "content", "tool_calls"}
    assert reply.message["tool_calls"][0]["function"]["arguments"] == '{"command": "ls"}'
    assert (reply.finish_reason, reply.retries, reply.model) == ("tool_calls", 0, "test-model")
    assert 0 < reply.latency_s < 30


async def test_litellm_prices_no_answer_by_itself(
    monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    """It would, although the declared price counts."""
    priced: list[object] = []
    calculator = load().cost_calculator
    monkeypatch.setattr(calculator, "completion_cost", lambda **call: priced.append(call))
    reply = await ask(answer, name="openai/gpt-4o", input_cost_per_token=1, output_cost_per_token=1)
    assert (reply.usage.cost_usd, priced) == (110, [])


async def test_a_reply_without_tool_call_is_a_reply() -> None:
    """A reply without a tool call is not retried, because the arm decides how to handle it."""
    with api.OpenAIServer([api.text(None)]) as server:
        reply = await ask(server)
        assert len(server.requests) == 1
    assert reply.message == {"role": "assistant", "content": None}


@pytest.mark.parametrize(
    "fault",
    [
        api.rate_limited(),
        api.Reply("<html>bad gateway</html>", 502),
        api.dropped(),
        api.malformed(),
        replace(api.command("ls"), missing=7),
        api.Reply({"id": "x"}),
        api.Reply("[]"),
        api.empty_choices(),
    ],
)
async def test_a_temporary_fault_costs_a_retry(fault: Any) -> None:
    """The same request is sent again, and the reply counts the retry."""
    with api.OpenAIServer([fault, api.command("ls")]) as server:
        reply = await ask(server)
        assert server.requests[0] == server.requests[1]
    assert reply.retries == 1


async def test_a_slow_answer_is_cut_off_and_retried() -> None:
    """`timeout_s` limits the duration of each request."""
    with api.OpenAIServer([api.slow(3, api.text("late")), api.text("hi")]) as server:
        reply = await ask(server, timeout_s=0.5)
    assert (reply.message["content"], reply.retries) == ("hi", 1)


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (api.unauthorised(), ModelError, r"Incorrect API key.*OPENAI_API_KEY"),
        (api.out_of_quota(), ModelError, "exceeded your current quota"),
        (api.error(404, "no such model"), ModelError, "no such model.*api_base"),
        (api.context_window(), ContextWindowExceeded, "maximum context length"),
    ],
)
async def test_a_permanent_fault_fails_with_one_request(
    fault: Any, kind: type[AgentError], words: str
) -> None:
    """The error is raised at once and has the provider's message in one line."""
    with api.OpenAIServer([fault]) as server:
        with pytest.raises(kind, match=words) as caught:
            await ask(server)
        assert len(server.requests) == 1
    assert "\n" not in str(caught.value)
    assert not getattr(caught.value, "retryable", False)


async def test_retries_run_out() -> None:
    """After the last retry the error is retryable, as the fault may be temporary."""
    with api.OpenAIServer([api.server_error()] * 9) as server:
        with pytest.raises(ModelError, match="after 2 retries") as caught:
            await ask(server, max_retries=2)
        assert len(server.requests) == 3
    assert caught.value.retryable


async def test_an_unreachable_server_is_a_retryable_failure() -> None:
    """A server that cannot be reached may be up later, so the error is retryable."""
    with api.OpenAIServer([]) as server:
        url = server.url
    spec = LiteLLMSpec(name="openai/test-model", api_base=url, max_retries=1)
    with pytest.raises(ModelError, match="connection") as caught:
        await LiteLLMModel(spec, Sending(sleep=no_sleep)).complete(REQUEST)
    assert caught.value.retryable


async def test_a_cancelled_call_ends_at_once() -> None:
    """Stopping an attempt does not wait for the provider."""
    with api.OpenAIServer([api.slow(5, api.text("late"))]) as server:
        call = asyncio.create_task(ask(server))
        await until(lambda: server.requests, seconds=STARVED_S)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_name_without_provider_is_refused_without_a_request() -> None:
    """LiteLLM's own message about the model's name reaches the operator."""
    spec = LiteLLMSpec(name="nonsense")
    with pytest.raises(ModelError, match="LLM Provider NOT provided") as caught:
        await LiteLLMModel(spec, Sending(sleep=no_sleep)).complete(REQUEST)
    assert not caught.value.retryable


async def test_litellm_does_not_log_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM logs a call that is made without the provider, but none of the provider."""
    litellm, logged, is_logged = load(), [], asyncio.Event()
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

    def enqueue(async_coroutine: Any) -> None:
        logged.append(async_coroutine.cr_frame.f_locals["self"].model)
        async_coroutine.close()
        is_logged.set()

    monkeypatch.setattr(GLOBAL_LOGGING_WORKER, "ensure_initialized_and_enqueue", enqueue)
    with api.OpenAIServer([api.command("ls"), api.command("ls")]) as server:
        await ask(server)
        await litellm.acompletion("openai/another", REQUEST.messages, api_base=server.url)
    async with asyncio.timeout(30):
        await is_logged.wait()
    assert logged == ["another"]
