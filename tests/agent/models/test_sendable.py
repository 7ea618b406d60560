"""Conversations with odd texts and ids, as they are sent."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.models.chat import sendable
from agent.models.protocol import ModelRequest

TEXTS = st.text(st.characters(codec=None), max_size=5) | st.sampled_from(["\ud800", "a\udc80", ""])
IDS = st.sampled_from(["a", "a_2", "b", "", "\ud800", "\0", None, 5, ("x",)])
ARGUMENTS = st.sampled_from(
    ["{}", r'{"command": "echo \ud800"}', r'{"command": "\ud83d\ude00"}', r'{"\udfff": 1', None, {}]
)


@st.composite
def conversations(draw: Any) -> list[dict[str, Any]]:
    """Return replies, each with a result for every call of it."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": draw(TEXTS)}]
    for _ in range(draw(st.integers(0, 3))):
        calls = [
            {"id": draw(IDS), "function": {"name": draw(TEXTS), "arguments": draw(ARGUMENTS)}}
            for _ in range(draw(st.integers(1, 3)))
        ]
        messages.append({"role": "assistant", "content": draw(TEXTS), "tool_calls": calls})
        for call in calls:
            result = {"role": "tool", "tool_call_id": call["id"], "content": draw(TEXTS)}
            messages.append(result)
    return messages


@given(conversations())
def test_every_conversation_can_be_sent(messages: list[dict[str, Any]]) -> None:
    """All text can be encoded, each call has a unique id, and its result has the same id."""
    sent = sendable(ModelRequest(messages))
    json.dumps(sent, ensure_ascii=False).encode()
    ids = [call["id"] for message in sent for call in message.get("tool_calls", ())]
    results = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert ids == results
    assert len(set(ids)) == len(ids)
    assert all(isinstance(each, str) and each.isprintable() and each for each in ids)
    for message in sent:
        for call in message.get("tool_calls", ()):
            if isinstance(arguments := call["function"]["arguments"], str):
                try:
                    content = json.loads(arguments)
                except ValueError:
                    continue
                json.dumps(content, ensure_ascii=False).encode()
    assert sendable(ModelRequest(sent)) == sent
    assert [message["role"] for message in sent] == [message["role"] for message in messages]


def test_an_ordinary_conversation_stays_as_it_is() -> None:
    """A pair of escapes is a character, and nothing of it is written anew."""
    call = {"id": "a", "function": {"name": "bash", "arguments": r'{"command": "\ud83d\ude00"}'}}
    messages = [
        {"role": "user", "content": "Grüße 😀"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "done"},
    ]
    assert sendable(ModelRequest(messages)) == messages
