"""What a model wrote in a reply: its text and its calls, native or in a fenced block.

A reply is foreign. Each part of it may be of any type, so nothing here raises an error that a
model could cause: an odd part is read as missing, or comes with a problem that is written for the
model. Every arm reads replies here, and only here.

Both protocols read a reply into calls, and into the message that the next request repeats. A reply
that a provider would refuse to read again is repaired in that message, since a conversation with it
could never continue.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

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
    """None if there is none that a result can repeat."""
    name: str | None
    arguments: Any
    """JSON as text, if the model wrote what it should."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """The entry as it was written; empty if it is no object."""
    function: Mapping[str, Any] = field(default_factory=dict)
    """Its function as it was written; empty if it is no object."""


def list_requested_calls(message: Mapping[str, Any]) -> list[RequestedCall]:
    """Return the calls that a reply asks for, in order."""
    calls = message.get("tool_calls")
    return [_parse_call(call) for call in calls] if isinstance(calls, list | tuple) else []


def _parse_call(call: Any) -> RequestedCall:
    entry = call if isinstance(call, dict) else {}
    function = entry.get("function")
    function = function if isinstance(function, dict) else {}
    name = function.get("name")
    return RequestedCall(
        _id(entry.get("id")),
        None if name is None else text(name),
        function.get("arguments"),
        entry,
        function,
    )


def _id(given: Any) -> str | None:
    known = text(given) if given else ""
    return known if known.isprintable() and 0 < len(known) <= _ID_CHARS else None


def text_of(message: Mapping[str, Any]) -> str:
    """Return what a reply says, or ''. Of content in parts, it is the text."""
    content = message.get("content")
    if not isinstance(content, list):
        return text(content) if content else ""
    parts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def text(given: Any) -> str:
    """Return a value of any type as text."""
    try:
        return str(given)
    except RecursionError:
        return type(given).__name__


def json_object(given: str) -> dict[str, Any]:
    """Return the JSON object that a model wrote.

    Raises:
        Malformed: it is none, or too deep to be recorded.
    """
    try:
        content = json.loads(given)
    except ValueError as error:
        raise Malformed(f"the arguments are not JSON: {error}") from None
    except RecursionError:
        raise Malformed(_TOO_DEEP) from None
    if not isinstance(content, dict):
        raise Malformed("the arguments are not a JSON object")
    if given.count("[") + given.count("{") > MOST_NESTED and _is_too_deep(content):
        raise Malformed(_TOO_DEEP)
    return content


_TOO_DEEP = f"the arguments are nested more than {MOST_NESTED} levels deep"


def _is_too_deep(content: Any) -> bool:
    level = [content]
    for _ in range(MOST_NESTED):
        level = [part for each in level for part in _parts(each)]
    return bool(level)


def _parts(given: Any) -> list[Any]:
    """Return the parts of a list or object that are lists or objects."""
    parts = given.values() if isinstance(given, dict) else given
    return [part for part in parts if isinstance(part, dict | list)]


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

    def offer(self, schemas: list[Schema]) -> list[Schema]:
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

    def offer(self, schemas: list[Schema]) -> list[Schema]:
        return schemas

    def read(self, reply: ModelReply, taken_ids: set[str]) -> Turn:
        asked = list_requested_calls(reply.message)
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
        return not list_requested_calls(reply.message) and bool(text_of(reply.message).strip())

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

    def offer(self, schemas: list[Schema]) -> list[Schema]:
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
