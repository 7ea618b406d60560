"""The words of a chat, from the journal."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from agent.journal import InboxMessage, RecordedStep
from agent.models.protocol import ModelReply
from agent.session.mail import INBOX
from agent.session.steps import ActionResult, Step, from_record
from reports.values import arguments_of

Speaker = Literal["person", "agent", "tool"]

_TO_PERSONS = {"answer": ("text", "summary"), "ask": ("question",)}
"""Tools whose use speaks to a person, with the arguments of which one is said."""


@dataclass(frozen=True)
class Remark:
    """Something that was said."""

    speaker: Speaker
    name: str
    """The sender of a message, the role of an agent, or the name of a tool."""
    text: str
    at: datetime | None
    is_unread: bool = False
    """True for a message that the agent has not read yet."""


def remarks(steps: list[RecordedStep], messages: list[InboxMessage]) -> Iterator[Remark]:
    """Yield what was said, in order: messages, answers, questions, and results of tools."""
    read = 0
    for recorded in sorted(steps, key=lambda step: step.ordinal):
        if recorded.result is None:
            continue
        step = from_record(recorded)
        yield from _remarks(step)
        if _is_inbox(step) and isinstance(step.result, ActionResult):
            read = max([read, *(each["n"] for each in step.result.content)])
    for message in messages:
        if message.n > read:
            yield _said(message.kind, message.text, message.sender, message.sent_at, is_unread=True)


def _remarks(step: Step) -> Iterator[Remark]:
    match step.result:
        case ModelReply(message=message):
            yield from _replied(step, message)
        case ActionResult(content=content) if _is_inbox(step):
            for each in content:
                yield _said(each["kind"], each["text"], each["sender"], step.started_at)
        case ActionResult(content={"output": str(output)}) if step.request.get("tool"):
            yield Remark("tool", step.request["tool"], output, step.started_at)


def _replied(step: Step, message: dict[str, Any]) -> Iterator[Remark]:
    """Yield the answers and questions of a reply, or its text if it calls no tool."""
    name = step.request.get("role") or "agent"
    calls = message.get("tool_calls") or ()
    if not calls and message.get("content"):
        yield Remark("agent", name, str(message["content"]), step.started_at)
    for call in calls:
        arguments = arguments_of(call["function"]["arguments"])
        for argument in _TO_PERSONS.get(call["function"]["name"], ()):
            if isinstance(arguments, dict) and argument in arguments:
                yield Remark("agent", name, str(arguments[argument]), step.started_at)


def _said(
    kind: str, text: str, sender: str, at: datetime | None, *, is_unread: bool = False
) -> Remark:
    told = text if kind == "say" else f"[{kind}] {text}".rstrip()
    return Remark("person", sender, told, at, is_unread)


def _is_inbox(step: Step) -> bool:
    return step.kind == "event" and step.request.get("event") == INBOX
