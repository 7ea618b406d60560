"""Answers that are shown while they are generated, over real HTTP."""

import json
from dataclasses import replace
from typing import Any

import pytest

from agent.models.litellm_api import LiteLLMModel
from agent.models.protocol import ModelReply, ModelRequest
from agent.models.spec import LiteLLMSpec
from agent.models.streaming import Tell
from tests.servers import openai_server as api

REQUEST = ModelRequest([{"role": "user", "content": "What is here?"}])


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "dummy")


async def _no_sleep(seconds: float) -> None:
    return None


async def ask(tell: Tell | None, *replies: api.Reply) -> tuple[ModelReply, list[dict[str, Any]]]:
    """Make one call. Return its reply, without its latency, and the requests."""
    with api.OpenAIServer(list(replies)) as server:
        spec = LiteLLMSpec(name="openai/gpt-4o", api_base=server.url)
        reply = await LiteLLMModel(spec, sleep=_no_sleep, tell=tell).complete(REQUEST)
        return replace(reply, latency_s=0.0), server.requests


@pytest.mark.parametrize("answer", [api.text("Two files and a test."), api.command("ls -l")])
async def test_a_streamed_reply_is_the_same(answer: api.Reply) -> None:
    """Text, calls, tokens and cost are those of an answer in one piece."""
    parts: list[str] = []
    whole, _ = await ask(None, answer)
    streamed, [request] = await ask(parts.append, answer)
    assert streamed == whole
    assert "".join(parts) == (whole.message["content"] or "")
    assert len(parts) > 1
    assert request["stream"] is True


async def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    """The part that arrived is no reply."""
    chunk = {
        "id": "x",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4o",
        "choices": [{"index": 0, "delta": {"content": "Two"}, "finish_reason": None}],
    }
    broken = api.Reply(
        f"data: {json.dumps(chunk)}\n\n", headers={"Content-Type": "text/event-stream"}
    )
    parts: list[str] = []
    reply, requests = await ask(parts.append, broken, api.text("Two files."))
    assert (reply.message["content"], reply.retries, len(requests)) == ("Two files.", 1, 2)
