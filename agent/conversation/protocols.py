"""The text and the calls of a model's reply, native or in its text.

A reply is foreign. Each part of it can be of any type, so a model cannot cause an error in this
module: an odd part is read as missing, or comes with a problem that is written for the model. Every
arm reads replies in this module only.

Both protocols read a reply into calls, and into the message that the next request repeats. A reply
that a provider would refuse to read again is repaired in that message, since a conversation with it
could never continue.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from agent.conversation.text_calls import Malformed, Schema, TextCalls, json_object
from agent.models.protocol import Message, ModelReply
from agent.shortening import head_and_tail

_ID_CHARS = 65_536
"""Maximum length of an id. Some providers hide data for themselves in it."""


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


KEPT_OF_MALFORMED = 2_000
"""Maximum length of a reply without a usable call in the conversation, in characters."""

_FORM = """A call has this form. Nothing but further calls follows it:

<function=NAME>
<parameter=FIRST>
text as it is: any number of lines, no quotes around it, and nothing escaped
</parameter>
<parameter=SECOND>
["numbers", "booleans", "lists", "and objects", "as", "JSON"]
</parameter>
</function>

A text with such tags in it has to be written as JSON, in a call of this form:

<tool_call>
{"name": "NAME", "arguments": {"FIRST": "text", "SECOND": ["a", "list"]}}
</tool_call>"""

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


class TextTools:
    """Calls in the text of a reply, for models without native tool calls."""

    def __init__(self, schemas: Sequence[Schema], *, is_chat: bool = False) -> None:
        """Offer tools. A chat does not have `answer`: a reply without a call goes to the person."""
        self._schemas = list(schemas)
        self._is_chat = is_chat
        self._text = TextCalls(schemas, text_may_follow=not is_chat)

    @property
    def instructions(self) -> str:
        """The tool instructions for the system message."""
        tools = "\n".join(json.dumps(each["function"], sort_keys=True) for each in self._schemas)
        if self._is_chat:
            what = "A reply that ends with calls uses tools. One without a call goes to the person."
        else:
            what = "Every reply ends with calls of tools; call `answer` when you are finished."
        return f"{what}\n\n{_FORM}\n\nThe tools:\n\n{tools}"

    @property
    def offer(self) -> list[Schema]:
        """The tool schemas that the request itself carries."""
        return []

    def read(self, reply: ModelReply, taken_ids: set[str]) -> Turn:
        """Return the calls of a reply, with other ids than `taken_ids`, or their problem."""
        content = text_of(reply.message)
        try:
            calls = self._text.read(content, is_cut_off=reply.finish_reason == "length")
        except Malformed as error:
            return _without_calls(reply, str(error))
        if not calls:
            return _without_calls(reply, "the reply calls no tool")
        message = _with_text(reply.message, content)
        return Turn([Call("", name, arguments) for name, arguments in calls], message)

    def is_speech(self, reply: ModelReply) -> bool:
        """Return True if a reply is text without a call."""
        speech = text_of(reply.message)
        with suppress(Malformed):
            return bool(speech.strip()) and not self._text.read(speech)
        return False

    def results(self, outputs: list[tuple[Call, str]]) -> list[Message]:
        """Return the results of the tools, as messages."""
        content = "\n\n".join(f"Result of {call.name}:\n{output}" for call, output in outputs)
        return [{"role": "user", "content": content}]


class NativeTools(TextTools):
    """The provider's native tool calls. In a reply without any, calls in the text are read.

    Their results are text as well, which servers without tools accept.
    """

    def __init__(self, schemas: Sequence[Schema], *, is_chat: bool = False) -> None:
        super().__init__(schemas, is_chat=is_chat)
        self._text = TextCalls(schemas)

    @property
    def instructions(self) -> str:
        if self._is_chat:
            return "A reply that calls no tool goes to the person, who then answers."
        return "Every reply calls at least one tool; call `answer` when you are finished."

    @property
    def offer(self) -> list[Schema]:
        return self._schemas

    def read(self, reply: ModelReply, taken_ids: set[str]) -> Turn:
        requested = list_requested_calls(reply.message)
        if not requested:
            return super().read(reply, taken_ids)
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
        return not list_requested_calls(reply.message) and super().is_speech(reply)

    def results(self, outputs: list[tuple[Call, str]]) -> list[Message]:
        if not all(call.id for call, _ in outputs):
            return super().results(outputs)
        # Providers reject a conversation in which a tool call has no result.
        return [
            {"role": "tool", "tool_call_id": call.id, "content": output} for call, output in outputs
        ]


def _without_calls(reply: ModelReply, problem: str) -> Turn:
    content = text_of(reply.message)
    if reply.finish_reason == "length":
        problem = f"the reply {_CUT_OFF}"
    elif not content.strip():
        problem = "the reply is empty"
    if not content.strip():
        return Turn([], None, problem)
    return Turn([], _with_text(reply.message, head_and_tail(content, KEPT_OF_MALFORMED)), problem)


def _with_text(message: Message, content: str) -> Message:
    """Return a message with other content and without native calls."""
    others = {name: value for name, value in message.items() if name != "tool_calls"}
    return {**others, "content": content}


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
        return Call(call_id, name, json_object(requested.arguments or "{}"))
    except Malformed as problem:
        return Call(call_id, name, {}, str(problem))


def _repair(call: Call, requested: RequestedCall) -> dict[str, Any]:
    """Return a call in the form in which every provider accepts it back."""
    name = _NOT_IN_A_NAME.sub("_", call.name)[:_NAME_CHARS] or "unnamed"
    arguments = "{}" if call.problem else _as_strict_json(requested.arguments, call)
    function = {**requested.function, "name": name, "arguments": arguments}
    return {**requested.entry, "id": call.id, "type": "function", "function": function}


def _as_strict_json(source: Any, call: Call) -> Any:
    """Return the arguments as the model wrote them, if a provider can read that, or else anew."""
    try:
        is_strict = isinstance(json.loads(source or "{}"), dict)
    except (TypeError, ValueError):
        is_strict = False
    return source or "{}" if is_strict else json.dumps(call.arguments)
