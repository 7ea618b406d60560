"""Answers that are shown while they are generated, over real HTTP."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.models.litellm_api import LiteLLMModel
from agent.models.native import Tell
from agent.models.pacing import Sending
from agent.models.protocol import ModelReply, ModelRequest
from agent.models.spec import LiteLLMSpec
from tests.servers import openai_server as api
from tests.servers.responses_stream import as_events
from tests.servers.strict import Called, Responses, Said
from tests.waiting import no_sleep

REQUEST = ModelRequest([{"role": "user", "content": "What is here?"}])


async def ask(tell: Tell | None, *replies: api.Reply) -> tuple[ModelReply, list[dict[str, Any]]]:
    """Make one call. Return its reply, without its latency, and the requests."""
    with api.OpenAIServer(list(replies)) as server:
        spec = LiteLLMSpec(name="openai/gpt-4o", api_base=server.url)
        reply = await LiteLLMModel(spec, Sending(sleep=no_sleep, tell=tell)).complete(REQUEST)
        return replace(reply, latency_s=0.0), server.requests


def drop_usage(reply: api.Reply) -> api.Reply:
    """Return an answer of a provider that reports no tokens, or whose last bytes were lost."""
    assert isinstance(reply.body, dict)
    return replace(reply, body={key: part for key, part in reply.body.items() if key != "usage"})


@pytest.mark.parametrize("change", [lambda reply: reply, drop_usage])
@pytest.mark.parametrize("answer", [api.text("Two files and a test."), api.command("ls -l")])
async def test_a_streamed_reply_is_the_same(
    answer: api.Reply, change: Callable[[api.Reply], api.Reply]
) -> None:
    """Text, calls, tokens and cost equal an answer in one piece. LiteLLM counts no tokens."""
    parts: list[str] = []
    whole, _ = await ask(None, change(answer))
    streamed, [request] = await ask(parts.append, change(answer))
    assert streamed == whole
    assert "".join(parts) == (whole.message["content"] or "")
    assert len(parts) > 1
    assert request["stream"] is True


_CHUNK = {
    "id": "x",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "gpt-4o",
    "choices": [{"index": 0, "delta": {"content": "Two"}, "finish_reason": None}],
}
_BROKEN = f"data: {json.dumps(_CHUNK)}\n\n"


@pytest.mark.parametrize(
    "broken",
    [api.Reply(_BROKEN, headers={"Content-Type": "text/event-stream"}), api.empty_choices()],
)
async def test_an_answer_that_breaks_off_is_asked_for_again(broken: api.Reply) -> None:
    """The incomplete answer is not a reply, and neither is one without a choice."""
    parts: list[str] = []
    reply, requests = await ask(parts.append, broken, api.text("Two files."))
    assert (reply.message["content"], reply.retries, len(requests)) == ("Two files.", 1, 2)


READ = Called("read", '{"path": "a.txt"}', "call_1")
LIST = Called("list", '{"path": "."}', "call_2")
SAID = {
    "text": Said("Two files and a test."),
    "call": Said(calls=(READ,)),
    "text and calls": Said("I look at it.", (READ, LIST)),
    "thought and call": Said(calls=(READ,), thinks=True),
    "thought, text and calls": Said("I look at it.", (READ, LIST), thinks=True),
    "thought and text": Said("Two files.", thinks=True),
    "cut": Said("Two fi", is_cut=True),
    "thought only": Said(thinks=True),
    "thought, cut": Said(thinks=True, is_cut=True),
    "nothing": Said(),
}


async def ask_responses(
    tell: Tell | None, strict: api.Script, request: ModelRequest = REQUEST
) -> tuple[ModelReply, list[dict[str, Any]]]:
    """Make one call of the Responses API. Return its reply, without its latency, and requests."""
    with api.OpenAIServer(strict) as server:
        spec = LiteLLMSpec(name="openai/gpt-5", api="responses", api_base=server.url)
        reply = await LiteLLMModel(spec, Sending(sleep=no_sleep, tell=tell)).complete(request)
        return replace(reply, latency_s=0.0), server.requests


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
async def test_a_streamed_reply_of_the_responses_api_is_the_same(said: Said) -> None:
    """Text, calls, reasoning, tokens and cost equal an answer in one piece."""
    parts: list[str] = []
    whole, _ = await ask_responses(None, Responses(lambda asked: said, reasons=True))
    strict = Responses(lambda asked: said, reasons=True)
    streamed, [request] = await ask_responses(parts.append, strict)
    assert streamed == whole
    assert strict.refused == []
    assert "".join(parts) == (whole.message["content"] or "")
    assert request["stream"] is True


async def test_the_reasoning_of_a_streamed_reply_is_sent_again() -> None:
    """The API takes the next request of the conversation, whose call needs the reasoning before."""
    replies = iter([Said(calls=(READ,), thinks=True), Said("It is empty.")])
    strict = Responses(lambda asked: next(replies), reasons=True)
    called, _ = await ask_responses(lambda text: None, strict)
    [call] = called.message["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "nothing"}
    following = ModelRequest([*REQUEST.messages, called.message, result])
    reply, _ = await ask_responses(lambda text: None, strict, following)
    assert (reply.message["content"], strict.refused) == ("It is empty.", [])


async def test_a_response_that_breaks_off_is_asked_for_again() -> None:
    """The incomplete answer is not a reply. The new one is also passed on."""
    strict = Responses(lambda asked: Said("Two files and a test."), reasons=True)
    whole = strict.written(Said("Two files and a test."), 1)
    broken = api.Reply(as_events(whole, most=6), headers={"Content-Type": "text/event-stream"})
    replies = iter([broken])
    parts: list[str] = []
    reply, requests = await ask_responses(
        parts.append, lambda body: next(replies, None) or strict(body)
    )
    assert (reply.message["content"], reply.retries) == ("Two files and a test.", 1)
    assert "".join(parts) == "Two files Two files and a test."
    assert len(requests) == 2


ANTHROPIC = [
    {
        "type": "message_start",
        "message": {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 25, "cache_read_input_tokens": 5, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    *(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": text},
        }
        for text in ("Two ", "files.")
    ),
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 15},
    },
    {"type": "message_stop"},
]
GEMINI = [
    {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Two "}]}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 30, "totalTokenCount": 30},
    },
    {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "files."}]},
                "index": 0,
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 30,
            "candidatesTokenCount": 15,
            "totalTokenCount": 45,
        },
    },
]


def send_events(events: list[dict[str, Any]]) -> api.Reply:
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    named = [
        f"event: {event['type']}\n{line}" if "type" in event else line
        for event, line in zip(events, lines, strict=True)
    ]
    return api.Reply("".join(named), headers={"Content-Type": "text/event-stream"})


@pytest.mark.parametrize(
    ("name", "events", "last"),
    [
        ("anthropic/claude-sonnet-4-5", ANTHROPIC, 2),  # the reason for the end, and the end
        ("gemini/gemini-2.5-flash", GEMINI, 0),  # LiteLLM makes up a reason that is missing
    ],
)
async def test_an_answer_of_another_provider_is_streamed(
    name: str, events: list[dict[str, Any]], last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole one is asked for once. Without the reason for its end, it has broken off."""
    for variable in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, "throw-away")
    for replies in ([events], [events[:-last], events] if last else [events]):
        parts: list[str] = []
        with api.OpenAIServer([send_events(each) for each in replies]) as server:
            base = server.url.removesuffix("/v1")
            model = LiteLLMModel(
                LiteLLMSpec(name=name, api_base=base), Sending(sleep=no_sleep, tell=parts.append)
            )
            reply = await model.complete(REQUEST)
            assert len(server.requests) == len(replies)
        usage = (reply.usage.input_tokens, reply.usage.output_tokens, reply.finish_reason)
        assert (reply.message["content"], usage) == ("Two files.", (30, 15, "stop"))
        assert "".join(parts).endswith("Two files.")
