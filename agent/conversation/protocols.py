"""The text and the calls of a model's reply, native or in a fenced block.

A reply is foreign. Each part of it can be of any type, so a model cannot cause an error in this
module: an odd part is read as missing, or comes with a problem that is written for the model. Every
arm reads replies in this module only.

Both protocols read a reply into calls, and into the message that the next request repeats. A reply
that a provider would refuse to read again is repaired in that message, since a conversation with it
could never continue.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from agent.models.protocol import Message, ModelReply
from agent.tools.rendering import head_and_tail

MOST_NESTED = 100
"""Levels of lists and objects in the arguments of a call. JSON of thousands cannot be recorded."""

_ID_CHARS = 65_536
"""Maximum length of an id. Some providers hide data for themselves in it."""


class Malformed(Exception):
    """The reply does not have the required form. The message goes back to the model."""


@dataclass(frozen=True)
class RequestedCall:
    """One entry of `tool_calls`."""

    id: str | None
    """None if a result cannot repeat it."""
    name: str | None
    arguments: Any
    """JSON as text, if the reply is valid."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """The entry as it was written; empty if it is not an object."""
    function: Mapping[str, Any] = field(default_factory=dict)
    """Its function as it was written; empty if it is not an object."""


def list_requested_calls(message: Mapping[str, Any]) -> list[RequestedCall]:
    """Return the calls that a reply requests, in order."""
    entries = message.get("tool_calls")
    calls = []
    for value in entries if isinstance(entries, list | tuple) else ():
        entry = value if isinstance(value, dict) else {}
        function = entry.get("function")
        function = function if isinstance(function, dict) else {}
        name, call_id = function.get("name"), text(entry.get("id") or "")
        calls.append(
            RequestedCall(
                call_id if call_id.isprintable() and 0 < len(call_id) <= _ID_CHARS else None,
                None if name is None else text(name),
                function.get("arguments"),
                entry,
                function,
            )
        )
    return calls


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a reply, or ''. Its content can have parts."""
    content = message.get("content")
    if not isinstance(content, list):
        return text(content) if content else ""
    parts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def text(value: Any) -> str:
    """Return a value of any type as text."""
    try:
        return str(value)
    except RecursionError:
        return type(value).__name__


def json_object(source: str) -> dict[str, Any]:
    """Return the JSON object that a model wrote.

    Raises:
        Malformed: it is not an object, or too deep to be recorded.
    """
    try:
        content = json.loads(source)
    except ValueError as error:
        raise Malformed(f"the arguments are not JSON: {error}") from None
    except RecursionError:
        raise Malformed(_TOO_DEEP) from None
    if not isinstance(content, dict):
        raise Malformed("the arguments are not a JSON object")
    if source.count("[") + source.count("{") > MOST_NESTED:
        level: list[Any] = [content]
        for _ in range(MOST_NESTED):
            parts = [node.values() if isinstance(node, dict) else node for node in level]
            level = [part for part in chain(*parts) if isinstance(part, dict | list)]
        if level:
            raise Malformed(_TOO_DEEP)
    return content


_TOO_DEEP = f"the arguments are nested more than {MOST_NESTED} levels deep"


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
    """The reason why it cannot be run, or ''."""


@dataclass(frozen=True)
class Turn:
    """A reply as the arm reads it."""

    calls: list[Call]
    message: Message | None
    """The message that the next request repeats; None for an empty reply."""
    problem: str = ""
    """The reason why it has no calls, or ''."""

    @property
    def is_malformed(self) -> bool:
        """True if none of its calls can be run."""
        return all(call.problem for call in self.calls)


class NativeTools:
    """The provider's native tool calls."""

    def instructions(self, schemas: list[Schema], *, is_chat: bool = False) -> str:
        """Return the tool instructions for the system message.

        A chat does not have `answer`: a reply without a call goes to the person.
        """
        if is_chat:
            return "A reply that calls no tool goes to the person, who then answers."
        return "Every reply calls at least one tool; call `answer` when you are finished."

    def offer(self, schemas: list[Schema]) -> list[Schema]:
        """Return the tool schemas that the request itself carries."""
        return schemas

    def read(self, reply: ModelReply, taken_ids: set[str]) -> Turn:
        """Return the calls of a reply, with other ids than `taken_ids`, or their problem."""
        requested = list_requested_calls(reply.message)
        if not requested:
            return _without_calls(reply, "the reply calls no tool")
        ids = set(taken_ids)
        calls = [_native(call, ids) for call in requested]
        if reply.finish_reason == "length" and (calls[-1].problem or not calls[-1].arguments):
            calls[-1] = replace(calls[-1], problem=f"this call {_CUT_OFF}")
        repaired = [_repair(call, requested[index]) for index, call in enumerate(calls)]
        content = reply.message.get("content")
        if isinstance(content, str) and content and not content.strip():
            content = None  # Anthropic refuses text that is only white space
        return Turn(calls, {**reply.message, "content": content, "tool_calls": repaired})

    def is_speech(self, reply: ModelReply) -> bool:
        """Return True if a reply is text without a call."""
        return not list_requested_calls(reply.message) and bool(text_of(reply.message).strip())

    def results(self, outputs: list[tuple[Call, str]]) -> list[Message]:
        """Return the results of the tools, as messages."""
        # Providers reject a conversation in which a tool call has no result.
        return [
            {"role": "tool", "tool_call_id": call.id, "content": output} for call, output in outputs
        ]


class TextTools:
    """One fenced block of JSON per reply. The methods do the same as those of `NativeTools`."""

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

    def offer(self, schemas: list[Schema]) -> list[Schema]:
        return []

    def read(self, reply: ModelReply, taken_ids: set[str]) -> Turn:
        blocks = _BLOCK.findall(text_of(reply.message))
        if len(blocks) != 1:
            return _without_calls(reply, f"the reply holds {len(blocks)} ```json blocks, not one")
        try:
            block = json_object(blocks[0])
        except Malformed as error:
            return _without_calls(reply, str(error))
        name, arguments = block.get("tool"), block.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            problem = 'the block needs "tool", a name, and "arguments", an object'
            return _without_calls(reply, problem)
        return Turn([Call("", name, arguments)], reply.message)

    def is_speech(self, reply: ModelReply) -> bool:
        speech = text_of(reply.message)
        return bool(speech.strip()) and not _BLOCK.search(speech)

    def results(self, outputs: list[tuple[Call, str]]) -> list[Message]:
        content = "\n\n".join(f"Result of {call.name}:\n{output}" for call, output in outputs)
        return [{"role": "user", "content": content}]


def objects_in(reply_text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a text: the whole text, and its fenced blocks."""
    objects = []
    for part in (reply_text, *_ANY_BLOCK.findall(reply_text)):
        with suppress(Malformed):
            objects.append(json_object(part))
    return objects


def _without_calls(reply: ModelReply, problem: str) -> Turn:
    content = text_of(reply.message)
    if reply.finish_reason == "length":
        problem = f"the reply {_CUT_OFF}"
    elif not content.strip():
        problem = "the reply is empty"
    if not content.strip():
        return Turn([], None, problem)
    message = {name: value for name, value in reply.message.items() if name != "tool_calls"}
    return Turn([], {**message, "content": head_and_tail(content, KEPT_OF_MALFORMED)}, problem)


def _native(requested: RequestedCall, ids: set[str]) -> Call:
    """Return a call with a unique id, which is added to `ids`."""
    base = requested.id or "call"
    call_id, number = base, 1
    while call_id in ids:
        number += 1
        call_id = f"{base}_{number}"
    ids.add(call_id)
    name = requested.name or ""
    try:
        return Call(call_id, name, json_object(text(requested.arguments or "{}")))
    except Malformed as problem:
        return Call(call_id, name, {}, str(problem))


def _repair(call: Call, requested: RequestedCall) -> dict[str, Any]:
    """Return a call in the form in which every provider accepts it back."""
    name = _NOT_IN_A_NAME.sub("_", call.name)[:_NAME_CHARS] or "unnamed"
    arguments = "{}" if call.problem else requested.arguments or "{}"
    function = {**requested.function, "name": name, "arguments": arguments}
    return {**requested.entry, "id": call.id, "type": "function", "function": function}
