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
from agent.models.simulated.reference import DrawnChange, Draws, Facts, Reference, draw_change
from agent.models.spec import SimulatedSpec

_NAME = re.compile(r'^\{.*?"name": "(\w+)"', re.MULTILINE)
_TEXT_CALL = re.compile(r"```json\n(.*?)\n```", re.DOTALL)

_CHAT = "goes to the person"
"""Words of the system message of a chat."""

_LOOKS = {"read", "run_command"}
"""Tools whose calls do not depend on each other where they follow each other."""


@dataclass(frozen=True)
class Action:
    """One tool call and the thought before it."""

    thought: str
    tool: str
    arguments: dict[str, Any]


Reply = list[Action]
"""The calls of one reply, at least one."""


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
    instructions: str
    """The system message."""
    reference: Reference
    draws: Draws
    spec: SimulatedSpec

    def change(self, files: list[FilePatch], place: str = "") -> DrawnChange:
        """Return a change of some files, as `draw_change` does."""
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
    instructions = _text(request.messages[0].get("content")) if request.messages else ""
    names = [str(tool["function"]["name"]) for tool in request.tools]
    return RoleRequest(
        role=request.role,
        scope=request.scope,
        number=request.number,
        facts=dict(request.facts),
        results=tuple(_results(request.messages)),
        native=bool(request.tools),
        tools=frozenset(names or _NAME.findall(instructions)),
        instructions=instructions,
        reference=reference,
        draws=draws,
        spec=spec,
    )


def _results(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the results of each usable reply, whose calls have JSON objects as arguments."""
    for at, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        calls = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
        if not calls:
            calls = _TEXT_CALL.findall(_text(message.get("content")))[:1]
        try:
            is_usable = calls and all(isinstance(json.loads(call), dict) for call in calls)
        except ValueError:
            continue
        if is_usable:
            after = takewhile(lambda later: later["role"] != "assistant", messages[at + 1 :])
            yield "\n".join(_text(result.get("content")) for result in after)


def reply(request: RoleRequest, actions: Reply, *, is_broken: bool = False) -> Message:
    """Return the actions as an assistant message. The text protocol has one action per reply.

    In a chat, which offers no `answer`, the message is the summary of the answer. The JSON of a
    broken reply is incomplete.
    """
    first = actions[0]
    if first.tool == "answer" and _CHAT in request.instructions and not is_broken:
        return {"role": "assistant", "content": str(first.arguments["summary"])}
    end = -1 if is_broken else None
    if not request.native:
        call = json.dumps({"tool": first.tool, "arguments": first.arguments})[:end]
        return {"role": "assistant", "content": f"{first.thought}\n\n```json\n{call}\n```"}
    messages = [
        tool_call(
            action.tool,
            json.dumps(action.arguments)[:end],
            call_id=f"call_{request.number}{f'_{n}' if n else ''}",
            content=action.thought,
        )
        for n, action in enumerate(actions)
    ]
    calls = [call for message in messages for call in message["tool_calls"]]
    return {**messages[0], "tool_calls": calls}


def reply_without_call(action: Action) -> Message:
    """Return a malformed reply: only the thought of an action."""
    return {"role": "assistant", "content": f"{action.thought} Let me think again."}


def _text(content: Any) -> str:
    """Return a message's text, which can consist of parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return content or ""
