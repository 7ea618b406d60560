"""Conversations of the durable arm's roles: their input, and the model's replies.

A request carries the facts of its role as data. A reply calls tools, natively or as a fenced block
of the text protocol.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from agent.errors import ModelError
from agent.models.chat import tool_call
from agent.models.patches import FilePatch
from agent.models.protocol import Message, ModelRequest
from agent.models.simulated.reference import Drawn, Draws, Facts, Reference, draw_change
from agent.models.spec import SimulatedSpec

_NAME = re.compile(r'^\{.*?"name": "(\w+)"', re.MULTILINE)
_TEXT_CALL = re.compile(r"```json\n(.*?)\n```", re.DOTALL)


@dataclass(frozen=True)
class Action:
    """One tool call and the thought before it."""

    thought: str
    tool: str
    arguments: dict[str, Any]


Reply = list[Action]
"""The calls of one reply, at least one."""

_CHAT = "goes to the person"
"""Words of the system message of a chat."""

_LOOKS = {"read", "run_command"}
"""Tools whose calls do not depend on each other where they follow each other."""


def answer(thought: str, **fields: Any) -> Action:
    """Return the call that ends a conversation."""
    return Action(thought, "answer", fields)


@dataclass(frozen=True)
class RoleRequest:
    """The parts of a role's request that determine the answer."""

    role: str
    scope: str
    number: int
    facts: Facts
    results: tuple[str, ...]
    """The results of the calls of each usable reply so far, as one text."""
    native: bool
    """True if tools are called natively, False for the text protocol."""
    tools: frozenset[str]
    """Names of the tools that are offered."""
    told: str
    """The system message."""
    reference: Reference
    draws: Draws
    spec: SimulatedSpec

    def change(self, files: list[FilePatch], place: str = "") -> Drawn:
        """Return a change of some files, as `drawn` does."""
        return draw_change(self.reference, files, self.draws, self.spec, place)

    def in_replies(self, actions: Iterable[Action], draw: str) -> list[Reply]:
        """Return one reply for each action, or for several looks in a row."""
        chance = self.spec.parallel_calls if self.native else 0.0
        replies: list[Reply] = []
        for number, action in enumerate(actions):
            joins = replies and {action.tool, replies[-1][-1].tool} <= _LOOKS
            if joins and self.draws.hits(chance, f"{draw}/parallel/{number}"):
                replies[-1] = [*replies[-1], action]
            else:
                replies.append([action])
        return replies

    def next_of(self, replies: Sequence[Reply]) -> Reply:
        """Return the next reply of a script. The last one is repeated."""
        return replies[min(len(self.results), len(replies) - 1)]


def read(
    request: ModelRequest, reference: Reference, draws: Draws, spec: SimulatedSpec
) -> RoleRequest:
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
    told = _text(request.messages[0].get("content")) if request.messages else ""
    return RoleRequest(
        role=request.role,
        scope=request.scope,
        number=request.number,
        facts=dict(request.facts),
        results=tuple(_results(request.messages)),
        native=bool(request.tools),
        tools=frozenset(_list_offered_tools(request, told)),
        told=told,
        reference=reference,
        draws=draws,
        spec=spec,
    )


def _list_offered_tools(request: ModelRequest, told: str) -> list[str]:
    """Return the names of the tools of a request, or of a text protocol's system message."""
    if request.tools:
        return [str(tool["function"]["name"]) for tool in request.tools]
    return _NAME.findall(told)


def _results(messages: Sequence[Message]) -> Iterator[str]:
    for at, message in enumerate(messages):
        if message["role"] == "assistant" and _is_usable(message):
            after = takewhile(lambda each: each["role"] != "assistant", messages[at + 1 :])
            yield "\n".join(_text(each.get("content")) for each in after)


def reply(conversation: RoleRequest, actions: Reply) -> Message:
    """Return the actions as an assistant message. The text protocol has one action per reply.

    In a chat, which offers no `answer`, the summary of an answer is said.
    """
    if actions[0].tool == "answer" and _CHAT in conversation.told:
        return {"role": "assistant", "content": str(actions[0].arguments["summary"])}
    if not conversation.native:
        call = {"tool": actions[0].tool, "arguments": actions[0].arguments}
        return _spoken(actions[0], json.dumps(call))
    messages = [
        _native(conversation, action, json.dumps(action.arguments), suffix=f"_{n}" if n else "")
        for n, action in enumerate(actions)
    ]
    calls = [call for message in messages for call in message["tool_calls"]]
    return {**messages[0], "tool_calls": calls}


def make_malformed_reply(conversation: RoleRequest, action: Action, *, broken: bool) -> Message:
    """Return the thought alone, or, if `broken`, a call with incomplete JSON."""
    if not broken:
        return {"role": "assistant", "content": f"{action.thought} Let me think again."}
    if conversation.native:
        return _native(conversation, action, json.dumps(action.arguments)[:-1])
    call = {"tool": action.tool, "arguments": action.arguments}
    return _spoken(action, json.dumps(call)[:-1])


def _native(
    conversation: RoleRequest, action: Action, arguments: str, *, suffix: str = ""
) -> Message:
    call_id = f"call_{conversation.number}{suffix}"
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
