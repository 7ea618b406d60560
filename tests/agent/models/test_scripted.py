"""The scripted model gives its replies in order and at no cost."""

import json
from dataclasses import replace

import pytest

from agent.errors import ModelError
from agent.models.protocol import ModelRequest
from agent.models.recorded import ScriptedModel
from agent.models.spec import ScriptedSpec

REQUEST = ModelRequest([{"role": "user", "content": "Fix it, please."}])


async def test_replies_come_in_order_and_end() -> None:
    """Texts, messages and commands are given one by one. After the last one the model fails."""
    message = {"role": "assistant", "content": "b", "tool_calls": None}
    spec = ScriptedSpec(provider="scripted", replies=["a", message, {"command": "ls"}])
    model = ScriptedModel(spec)
    replies = [await model.complete(replace(REQUEST, number=n)) for n in range(3)]
    assert [reply.message["content"] for reply in replies] == ["a", "b", None]
    arguments = replies[2].message["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"command": "ls"}
    with pytest.raises(ModelError, match="ended after 3 replies") as caught:
        await model.complete(replace(REQUEST, number=3))
    assert not caught.value.retryable


async def test_no_money_is_involved() -> None:
    """A scripted reply costs 0, and its cost source is "none"."""
    reply = await ScriptedModel(ScriptedSpec(provider="scripted", replies=["a"])).complete(REQUEST)
    assert (reply.usage.cost_usd, reply.cost_source) == (0.0, "none")
    assert reply.usage.input_tokens > 0
