"""Tool protocols: native tool calls, or a fenced block for models without them.

Both read a reply into calls, and into the message that the next request repeats. A reply that a
provider would refuse to read again is repaired in that message, since a conversation with it could
never continue.
"""

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agent.conversation.calls import Malformed, RequestedCall, asked_in, json_object, text, text_of
from agent.models.protocol import Message, ModelReply
from agent.tools.rendering import head_and_tail

Schema = dict[str, Any]
"""An OpenAI function definition: name, description and the JSON schema of its arguments."""

KEPT_OF_MALFORMED = 2_000
"""Maximum length of a reply without a usable call in the conversation, in characters."""

# JSON strings contain no line ends, so a fence inside one is followed by more of the line.
_BLOCK = re.compile(r"```json[ \t]*\n(.*?)```[ \t]*$", re.DOTALL | re.MULTILINE)
_ANY_BLOCK = re.compile(r"```\w*[ \t]*\n(.*?)```[ \t]*$", re.DOTALL | re.MULTILINE)

# OpenAI's rule for names.
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_CHARS = 64

_CUT_OFF = (
    "was cut off at the limit on the length of a reply. Do not repeat it: write less at once, and "
    "split a large edit into several smaller ones"
)


@dataclass(frozen=True)
class Call:
    """One tool call by the model."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str = ""
    """The reason why it cannot be carried out, or ''."""


@dataclass(frozen=True)
class Turn:
    """A reply as the arm reads it."""

    calls: list[Call]
    message: Message | None
    """The message that the next request repeats; None for an empty reply."""
    problem: str = ""
    """The reason why there are no calls, or ''."""

    @property
    def is_malformed(self) -> bool:
        """True if nothing of it can be carried out."""
        return all(call.problem for call in self.calls)


class ToolProtocol(Protocol):
    """The request and the reply format of tool calls."""

    def instructions(self, schemas: list[Schema], *, is_chat: bool = False) -> str:
        """Return the tool instructions for the system message.

        In a chat there is no `answer`: a reply without a call goes to the person.
        """
        ...

    def offered(self, schemas: list[Schema]) -> list[Schema]:
        """Return the tool schemas that the request itself carries."""
        ...

    def read(self, reply: ModelReply, taken_ids: set[str]) -> Turn:
        """Return the calls of a reply, or the reason why there are none.

        No call gets an id of `taken_ids`.
        """
        ...

    def is_speech(self, reply: ModelReply) -> bool:
        """Return True if a reply is text without a call."""
        ...

    def results(self, outputs: list[tuple[Call, str]]) -> list[Message]:
        """Return the results of the tools, as messages."""
        ...


class NativeTools:
    """The provider's native tool calls."""

    def instructions(self, schemas: list[Schema], *, is_chat: bool = False) -> str:
        if is_chat:
            return "A reply that calls no tool goes to the person, who then answers."
        return "Every reply calls at least one tool; call `answer` when you are finished."

    def offered(self, schemas: list[Schema]) -> list[Schema]:
        return schemas

    def read(self, reply: ModelReply, taken_ids: set[str]) -> Turn:
        asked = asked_in(reply.message)
        if not asked:
            return _without_calls(reply, "the reply calls no tool")
        ids = set(taken_ids)
        calls = [_native(call, ids) for call in asked]
        if reply.finish_reason == "length" and (calls[-1].problem or not calls[-1].arguments):
            calls[-1] = replace(calls[-1], problem=f"this call {_CUT_OFF}")
        repaired = [_as_sent(call, asked[at]) for at, call in enumerate(calls)]
        message = {**reply.message, "content": _content(reply)}
        return Turn(calls, {**message, "tool_calls": repaired})

    def is_speech(self, reply: ModelReply) -> bool:
        return not asked_in(reply.message) and bool(text_of(reply.message).strip())

    def results(self, outputs: list[tuple[Call, str]]) -> list[Message]:
        # Providers reject a conversation in which a tool call has no result.
        return [
            {"role": "tool", "tool_call_id": call.id, "content": output} for call, output in outputs
        ]


class TextTools:
    """One fenced block of JSON per reply."""

    def instructions(self, schemas: list[Schema], *, is_chat: bool = False) -> str:
        tools = "\n".join(json.dumps(schema["function"], sort_keys=True) for schema in schemas)
        block = '```json\n{"tool": "<name>", "arguments": {...}}\n```'
        if is_chat:
            return (
                f"A reply with exactly one such block asks for a tool:\n\n{block}\n\n"
                "A reply without one goes to the person, who then answers. The tools:\n\n"
                f"{tools}"
            )
        return (
            f"Every reply holds exactly one block that asks for one tool:\n\n{block}\n\n"
            f"Ask for `answer` when you are finished. The tools:\n\n{tools}"
        )

    def offered(self, schemas: list[Schema]) -> list[Schema]:
        return []

    def read(self, reply: ModelReply, taken_ids: set[str]) -> Turn:
        blocks = _BLOCK.findall(text_of(reply.message))
        if len(blocks) != 1:
            return _without_calls(reply, f"the reply holds {len(blocks)} ```json blocks, not one")
        try:
            asked = json_object(blocks[0])
        except Malformed as error:
            return _without_calls(reply, str(error))
        name, arguments = asked.get("tool"), asked.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            problem = 'the block needs "tool", a name, and "arguments", an object'
            return _without_calls(reply, problem)
        return Turn([Call("", name, arguments)], reply.message)

    def is_speech(self, reply: ModelReply) -> bool:
        said = text_of(reply.message)
        return bool(said.strip()) and not _BLOCK.search(said)

    def results(self, outputs: list[tuple[Call, str]]) -> list[Message]:
        shown = "\n\n".join(f"Result of {call.name}:\n{output}" for call, output in outputs)
        return [{"role": "user", "content": shown}]


def objects_in(said: str) -> list[dict[str, Any]]:
    """Return the JSON objects that a text is, or holds in fenced blocks."""
    found = []
    for part in (said, *_ANY_BLOCK.findall(said)):
        try:
            found.append(json_object(part))
        except Malformed:
            continue
    return found


def _without_calls(reply: ModelReply, problem: str) -> Turn:
    said = text_of(reply.message)
    if reply.finish_reason == "length":
        problem = f"the reply {_CUT_OFF}"
    elif not said.strip():
        problem = "the reply is empty"
    if not said.strip():
        return Turn([], None, problem)
    message = {name: value for name, value in reply.message.items() if name != "tool_calls"}
    return Turn([], {**message, "content": head_and_tail(said, KEPT_OF_MALFORMED)}, problem)


def _content(reply: ModelReply) -> Any:
    """Return the content beside tool calls. Anthropic refuses text that is only white space."""
    content = reply.message.get("content")
    return None if isinstance(content, str) and content and not content.strip() else content


def _native(asked: RequestedCall, ids: set[str]) -> Call:
    """Return a call with an id of its own, which is added to `ids`."""
    wanted = asked.id or "call"
    own, number = wanted, 1
    while own in ids:
        number += 1
        own = f"{wanted}_{number}"
    ids.add(own)
    name = asked.name or ""
    try:
        return Call(own, name, json_object(text(asked.arguments or "{}")))
    except Malformed as problem:
        return Call(own, name, {}, str(problem))


def _as_sent(call: Call, asked: RequestedCall) -> dict[str, Any]:
    """Return a call in the form in which every provider accepts it back."""
    name = _NOT_IN_A_NAME.sub("_", call.name)[:_NAME_CHARS] or "unnamed"
    arguments = "{}" if call.problem else asked.arguments or "{}"
    sent = {"name": name, "arguments": arguments}
    function = {**asked.function, **sent}
    return {**asked.entry, "id": call.id, "type": "function", "function": function}
