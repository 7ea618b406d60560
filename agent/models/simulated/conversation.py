"""Conversations of the durable arm's roles: their input, and the model's replies.

A request carries the facts of its role as data. A reply calls tools, natively or as a fenced block
of the text protocol.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from agent.errors import ModelError
from agent.models.chat import tool_call
from agent.models.protocol import Message, ModelRequest

Facts = dict[str, Any]
"""The input of a role, by name."""

_TEXT_CALL = re.compile(r"```json\n(.*?)\n```", re.DOTALL)


@dataclass(frozen=True)
class Action:
    """One tool call and the thought before it."""

    thought: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Conversation:
    """The parts of a role's request that determine the answer."""

    role: str
    scope: str
    number: int
    facts: Facts
    turn: int
    """Usable replies that the conversation already contains."""
    native: bool
    """True if tools are called natively, False for the text protocol."""


def read(request: ModelRequest) -> Conversation:
    """Parse a request.

    Raises:
        ModelError: the request has no facts.
    """
    if not request.facts:
        raise ModelError(
            f"the request of the {request.role} carries no facts, "
            "and the simulated model reads nothing else",
            retryable=False,
        )
    facts = dict(request.facts)
    turn = sum(m["role"] == "assistant" and _is_usable(m) for m in request.messages)
    native = bool(request.tools)
    return Conversation(request.role, request.scope, request.number, facts, turn, native)


def reply(conversation: Conversation, action: Action) -> Message:
    """Return the action as an assistant message."""
    if conversation.native:
        return _native(conversation, action, json.dumps(action.arguments))
    call = {"tool": action.tool, "arguments": action.arguments}
    return _spoken(action, json.dumps(call))


def malformed_reply(conversation: Conversation, action: Action, *, broken: bool) -> Message:
    """Return the thought alone, or, if `broken`, a call with incomplete JSON."""
    if not broken:
        return {"role": "assistant", "content": f"{action.thought} Let me think again."}
    if conversation.native:
        return _native(conversation, action, json.dumps(action.arguments)[:-1])
    call = {"tool": action.tool, "arguments": action.arguments}
    return _spoken(action, json.dumps(call)[:-1])


def _native(conversation: Conversation, action: Action, arguments: str) -> Message:
    call_id = f"call_{conversation.number}"
    return tool_call(action.tool, arguments, call_id=call_id, content=action.thought)


def _spoken(action: Action, call: str) -> Message:
    return {"role": "assistant", "content": f"{action.thought}\n\n```json\n{call}\n```"}


def _is_usable(message: Message) -> bool:
    if calls := message.get("tool_calls"):
        return all(_is_object(call["function"]["arguments"]) for call in calls)
    found = _TEXT_CALL.search(_text(message.get("content")))
    return found is not None and _is_object(found[1])


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _text(content: Any) -> str:
    """Return a message's text, which may consist of parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return content or ""
