"""Flaws of a model's replies, found in the recorded steps of an attempt.

A reply is text, calls, or both. What is taken for a call depends on the arm, so each kind
of arm has a reader here.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from agent.conversation.protocols import (
    NativeTools,
    TextTools,
    list_requested_calls,
    text,
    text_of,
)
from agent.conversation.text_calls import objects_in
from agent.models.protocol import ModelReply
from agent.session.steps import Step

Flaw = Literal["empty", "cut_off", "callless", "repeated"]
"""`empty`: neither text nor a call. `cut_off`: ended by the limit on the output. `callless`: text
without a call or an answer that the arm could take. `repeated`: equal to the reply before it in the
same scope."""

Place = tuple[str, int]
"""Scope and number of a step."""

Reader = Callable[[Step, ModelReply, Step | None], bool]
"""Returns True if an arm could use a reply with text. Receives its step and the next request of the
scope, if there is one."""

MINI_ACTION = r"```mswea_bash_command\s*\n(.*?)\n```"
"""Regex that extracts an action from a reply to mini-swe-agent.

The package's text prompt `swebench_backticks.yaml` asks for this form.
"""


_NAMES = re.compile(r'"(?:name|tool|function)"\s*:\s*"([^"]*)"|<function=([^\s<>]+)>')
"""The names of tools in calls that are written as text."""


def find_flaws(steps: Sequence[Step], is_usable: Reader | None) -> Mapping[Place, list[Flaw]]:
    """Return the flaws of each reply by its place; empty for a reply without one.

    Without a reader, no reply is found to be `callless`.
    """
    scopes = defaultdict[str, list[Step]](list)
    for step in sorted(steps, key=lambda step: step.seq):
        if "messages" in step.request:
            scopes[step.scope].append(step)
    flaws: dict[Place, list[Flaw]] = {}
    for requests in scopes.values():
        before = None
        for step, following in zip(requests, [*requests[1:], None], strict=True):
            if isinstance(step.result, ModelReply):
                content = _content(step.result)
                found = flaws[step.scope, step.seq] = list(_find(step.result))
                if is_usable and content[0] and not is_usable(step, step.result, following):
                    found.append("callless")
                if content == before:
                    found.append("repeated")
                before = content
    return flaws


def _find(reply: ModelReply) -> Iterator[Flaw]:
    if not any(_content(reply)):
        yield "empty"
    if reply.finish_reason in ("length", "max_tokens"):
        yield "cut_off"


def _content(reply: ModelReply) -> tuple[str, list[tuple[str | None, str]]]:
    """Return the text and the calls of a reply, without what differs between equal replies."""
    calls = list_requested_calls(reply.message)
    return text_of(reply.message).strip(), [(call.name, text(call.arguments)) for call in calls]


def reader_of_conversations(is_native: Callable[[str], bool]) -> Reader:
    """Return the reader of `Conversation`. `is_native` takes a role."""

    def is_usable(step: Step, reply: ModelReply, following: Step | None) -> bool:
        content = text_of(reply.message)
        # The offered tools are not recorded. A call of another tool is a call as well.
        names = {first or second for first, second in _NAMES.findall(content)}
        schemas = [{"function": {"name": name, "parameters": {}}} for name in names]
        kind = NativeTools if is_native(step.request.get("role", "")) else TextTools
        return bool(kind(schemas).read(reply, set()).calls or objects_in(content))

    return is_usable


def reader_of_mini(is_native: Callable[[str], bool]) -> Reader:
    """Return the reader of mini-swe-agent, whose own parser takes one action of a text."""

    def is_usable(step: Step, reply: ModelReply, following: Step | None) -> bool:
        if is_native(""):
            return bool(list_requested_calls(reply.message))
        return len(re.findall(MINI_ACTION, text_of(reply.message), re.DOTALL)) == 1

    return is_usable


def reader_of_programs(steps: Sequence[Step]) -> Reader:
    """Return the reader of a program that made these steps through the gateway.

    A text without a call is the program's result, unless the same conversation continues after it.
    A program that offers no tools takes every text.
    """
    fields: list[Mapping[str, Any]] = [step.request.get("fields") or {} for step in steps]
    offers_tools = any(changed.get("tools") for changed in fields)

    def is_usable(step: Step, reply: ModelReply, following: Step | None) -> bool:
        if list_requested_calls(reply.message) or not offers_tools or following is None:
            return True
        new = following.request["messages"]
        return not new or new[0].get("role") in ("system", "developer", "user")

    return is_usable
