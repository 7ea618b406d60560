"""Cache markers and sampling parameters on the wire, over real HTTP."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from agent.errors import ModelError
from agent.models.litellm_api import LiteLLMModel
from agent.models.protocol import Message, ModelReply, ModelRequest
from agent.models.spec import LiteLLMSpec
from tests.servers import openai_server as api
from tests.servers.providers import answer_in

CLAUDE = "anthropic/claude-sonnet-4-5"
MARK = {"type": "ephemeral"}
READ = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
MESSAGES: list[Message] = [
    {"role": "system", "content": "You fix things."},
    {"role": "user", "content": "Fix it."},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "x = 1"},
]


@pytest.fixture
def anthropic() -> Iterator[api.OpenAIServer]:
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 70,
        "cache_read_input_tokens": 20,
        "output_tokens": 5,
    }
    with api.OpenAIServer(lambda body: api.Reply(answer_in("messages", usage))) as server:
        yield server


async def ask(server: Any, name: str, **fields: Any) -> ModelReply:
    """Make one call in the middle of a conversation."""
    spec = LiteLLMSpec(name=name, api_base=server.url, max_retries=0, **fields)
    return await LiteLLMModel(spec).complete(ModelRequest(MESSAGES, [READ]))


def marked(value: Any) -> int:
    """Return the number of cache markers anywhere in a request."""
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(marked(part) for part in value.values())
    return sum(marked(part) for part in value) if isinstance(value, list) else 0


async def test_claude_requests_have_cache_markers(anthropic: api.OpenAIServer) -> None:
    """The instructions and the latest result are marked in a copy of the conversation."""
    before = copy.deepcopy(MESSAGES)
    usage = (await ask(anthropic, CLAUDE, reasoning_effort="low")).usage
    sent = anthropic.requests[0]
    assert sent["thinking"]["type"] == "enabled"
    assert sent["system"][-1]["cache_control"] == MARK
    last = sent["messages"][-1]["content"][-1]
    assert (last["type"], last["cache_control"]) == ("tool_result", MARK)
    assert marked(sent) == 2
    assert before == MESSAGES
    counts = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    assert counts == (100, 20, 70)
    assert usage.cost_usd == pytest.approx((10 * 3 + 70 * 3.75 + 20 * 0.3 + 5 * 15) * 1e-6)


async def test_markers_are_left_out_where_they_do_not_pay(anthropic: api.OpenAIServer) -> None:
    """An unlisted model can lack support for them. The experiment can replace them."""
    await ask(anthropic, CLAUDE, extra={"cache_control_injection_points": []})
    await ask(anthropic, "anthropic/claude-nobody-has-this")
    model = LiteLLMModel(LiteLLMSpec(name=CLAUDE, api_base=anthropic.url, max_retries=0))
    await model.complete(ModelRequest(MESSAGES, [READ], goes_on=False))
    with api.OpenAIServer([api.text("hi")]) as server:
        await ask(server, "openai/claude-sonnet-4-5")
        assert [marked(sent) for sent in (*anthropic.requests, *server.requests)] == [0] * 4


@pytest.mark.parametrize(
    ("name", "fields", "sent"),
    [
        ("openai/gpt-5", {}, {"max_completion_tokens": 16_384}),
        ("openai/gpt-5", {"temperature": 0.5}, {"max_completion_tokens": 16_384}),
        (
            "openai/gpt-5",
            {"extra": {"max_completion_tokens": 99, "seed": 7}},
            {"max_completion_tokens": 99, "seed": 7},
        ),
        ("openai/gpt-4o", {"temperature": 0.5, "max_tokens": 99}, {"temperature": 0.5}),
        ("openai/gpt-5", {"api": "responses"}, {"max_output_tokens": 16_384, "store": False}),
        (
            "openai/gpt-5",
            {"api": "responses", "reasoning_effort": "low"},
            {"include": ["reasoning.encrypted_content"]},
        ),
        ("openai/nobody-lists-this", {}, {"max_tokens": 16_384}),
    ],
)
async def test_models_get_the_parameters_that_they_support(
    name: str, fields: dict[str, Any], sent: dict[str, Any]
) -> None:
    """Reasoning models have a different name for the output limit and no temperature."""
    with api.OpenAIServer([api.error(400, "no")]) as server:
        with pytest.raises(ModelError):
            await ask(server, name, **fields)
        body = server.requests[0]
    assert sent.items() <= body.items()
    assert ("temperature" in body) == ("temperature" in sent)


async def test_thinking_is_sent_back_as_it_came(anthropic: api.OpenAIServer) -> None:
    """Thinking is sent back with its signature, before the tool call that it led to."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "signed"}
    called = {**MESSAGES[2], "thinking_blocks": [thought], "reasoning_content": "Hm."}
    model = LiteLLMModel(
        LiteLLMSpec(name=CLAUDE, api_base=anthropic.url, max_retries=0, reasoning_effort="low")
    )
    await model.complete(ModelRequest([*MESSAGES[:2], called, MESSAGES[3]], [READ]))
    blocks = anthropic.requests[0]["messages"][1]["content"]
    assert blocks[0] == thought
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]
