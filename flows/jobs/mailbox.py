"""Attempts as people see them: their work, their questions, their waits, and messages to them."""

import getpass
import json
import re
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from agent.arms import ARMS
from agent.errors import MessageRefused
from agent.journal import Attempt, InboxMessage, Journal, MessageKind, RecordedStep, Wait, Wanted
from agent.journal.holding import is_dead, worker
from agent.journal.inbox import check_message
from agent.journal.watching import Watched
from agent.models.protocol import ModelReply
from agent.session.mail import INBOX
from agent.session.steps import ActionResult, Step, from_record
from flows.display.errors import UsageError
from flows.experiments.secret_kinds import check_readable
from flows.storage.job_names import experiment_of, resolve_attempt
from flows.storage.journals import existing_journal, open_journal
from flows.storage.lake import Lake
from reports.values import arguments_of

Standing = Literal["busy", "waiting", "open", "ended"]
"""States of an attempt.

busy: a worker is working on it. waiting: it needs the next message to continue. open: it could
continue, and no worker has it. ended: it has an outcome.
"""


@dataclass(frozen=True)
class Seen:
    """The state of an attempt at one moment."""

    standing: Standing
    wait: Wait | None
    """The last wait, over or not."""
    holder: str | None
    """The living worker that has it."""
    outcome: str | None
    """JSON text; None before the end."""

    @property
    def is_asking(self) -> bool:
        """True if it waits for an approval."""
        wait = self.wait if self.standing == "waiting" else None
        return wait is not None and wait.wanted == "approval"

    @property
    def ending(self) -> str:
        """The outcome in a few words; '' before the end."""
        if self.outcome is None:
            return ""
        content = json.loads(self.outcome)
        detail = f" ({content['detail']})" if content["detail"] else ""
        return f"{content['status'].replace('_', ' ')}{detail}"


class Mailbox:
    """The inbox of an attempt, with the journal's record of the attempt."""

    def __init__(self, journal: Journal, attempt: Attempt) -> None:
        self.journal = journal
        self.attempt = attempt
        self._inbox = journal.inbox(attempt.attempt_id)

    @classmethod
    def of(cls, lake: Lake, prefix: str) -> "Mailbox":
        """Return the mailbox of the attempt with this prefix of its id, or its job's id.

        Raises:
            UsageError: no attempt has it, several have, or it was pruned.
        """
        journal, prefix = existing_journal(lake), resolve_attempt(lake, prefix)
        matches = journal.find(prefix) if journal is not None and prefix else []
        if journal is None or len(matches) != 1:
            many = f"{len(matches)} attempts begin with" if matches else "there is no attempt"
            raise UsageError(
                f"{many} {prefix!r} in {lake.root}; `durabench status NAME --cells` lists them"
            )
        [attempt] = matches
        if (pruned_at := journal.pruned_at(attempt.attempt_id)) is not None:
            raise UsageError(
                f"attempt {attempt.attempt_id} has ended, and its steps were pruned on "
                f"{pruned_at:%Y-%m-%d}"
            )
        return cls(journal, attempt)

    @property
    def attempt_id(self) -> str:
        return self.attempt.attempt_id

    def get_state(self) -> Seen:
        """Return the state of the attempt."""
        holder, wait = self.journal.holder(self.attempt_id), self._inbox.wait()
        # After the holder, which writes the outcome before it gives the attempt back.
        outcome = self.journal.outcome(self.attempt_id)
        if holder is not None and is_dead(holder):
            holder = None
        if outcome is not None:
            return Seen("ended", wait, holder, outcome)
        if wait is not None and not wait.is_answered:
            return Seen("waiting", wait, holder, None)
        return Seen("busy" if holder else "open", wait, holder, None)

    def is_elsewhere(self, seen: Seen) -> bool:
        """Return True if another process than this one works on the attempt, or waits with it."""
        return seen.holder not in (None, worker())

    def send(self, kind: MessageKind, text: str, message_id: str | None = None) -> InboxMessage:
        """Send a message. With the id of an earlier message, it is that message again.

        Raises:
            MessageRefused: the attempt or the message does not allow it; the reason is one line.
        """
        sender = f"{getpass.getuser()}@{socket.gethostname()}"
        name = message_id or secrets.token_hex(8)
        return self.pass_on(InboxMessage(name, kind, text, sender))

    def pass_on(self, message: InboxMessage) -> InboxMessage:
        """Send a message of a given sender. Return it as it was sent first.

        Raises:
            MessageRefused: as for `send`, or the agent of the attempt reads no messages.
        """
        if not reads_messages(self.attempt):
            *others, last = (name for name, arm in ARMS.items() if arm.hears)
            raise MessageRefused(
                f"attempt {self.attempt_id} is of agent {_agent_of(self.attempt)}, whose "
                f"conversation is private: only {', '.join(others)} and {last} read messages"
            )
        check(message)
        return self._inbox.send(message)

    def list_messages(self) -> list[InboxMessage]:
        """Return all messages, in order."""
        return self._inbox.read()


def check(message: InboxMessage) -> None:
    """Return if a message can be sent to an attempt.

    Raises:
        MessageRefused: it has no text, or holds a secret or what cannot be stored.
    """
    check_message(message)
    try:
        check_readable({"text": message.text, "sender": message.sender})
    except ValueError as error:
        raise MessageRefused(str(error)) from None


def reads_messages(attempt: Attempt) -> bool:
    """Return True if the agent of an attempt reads messages."""
    agent = _agent_of(attempt)
    return agent in ARMS and ARMS[agent].hears


def leave(lake: Lake, job_id: str, message: InboxMessage) -> None:
    """Leave a message for all attempts of a job. Those that have not started get it then."""
    check(message)
    journal, name = open_journal(lake), _early(job_id)
    journal.start(Attempt(name, name, "early", job_id, 0, "{}"))
    journal.inbox(name).send(message)
    _hand_over(journal, [message], read_open_attempts(lake, job_id))


def is_left(lake: Lake, job_id: str, message_id: str) -> bool:
    """Return True if a message with this id was left for a job."""
    journal = existing_journal(lake)
    messages = journal.inbox(_early(job_id)).read() if journal else []
    return any(message.id == message_id for message in messages)


def start(lake: Lake, job_id: str, attempts: Sequence[Attempt]) -> None:
    """Start the attempts of a job in the journal, with the messages that were left for them."""
    journal = open_journal(lake)
    for attempt in attempts:
        journal.start(attempt)
    # After the start: who leaves a message looks for attempts afterwards.
    _hand_over(journal, journal.inbox(_early(job_id)).read(), attempts)


def _hand_over(
    journal: Journal, messages: Sequence[InboxMessage], attempts: Sequence[Attempt]
) -> None:
    for message in messages:
        for attempt in filter(reads_messages, attempts):
            with suppress(MessageRefused):  # it has ended, or has it as a decision
                journal.inbox(attempt.attempt_id).send(replace(message, n=0, sent_at=None))


def _early(job_id: str) -> str:
    return f"early-{job_id}"


def _agent_of(attempt: Attempt) -> str:
    return str(json.loads(attempt.spec).get("agent", ""))


MOST_CHARACTERS = 4_000


@dataclass(frozen=True)
class Asking:
    """An attempt that waits for a person."""

    attempt: Attempt
    wanted: Wanted
    about: str
    """The question, the plan or the patch that needs a reaction."""
    since: datetime

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON, with a long text cut off."""
        return {
            "arm": self.attempt.arm,
            "attempt": self.attempt.attempt_id,
            "wanted": self.wanted,
            "about": self.about[:MOST_CHARACTERS],
            "since": self.since.isoformat(timespec="milliseconds"),
        }


def read_asks(lake: Lake, job_id: str) -> list[Asking]:
    """Return the attempts of a job that wait for a person, by arm."""
    journal = existing_journal(lake)
    at_work = read_open_attempts(lake, job_id)
    names = [attempt.attempt_id for attempt in at_work]
    waits = journal.watching.waits(names) if journal and names else {}
    return [
        Asking(attempt, wait.wanted, wait.about, wait.since)
        for attempt in at_work
        if (wait := waits.get(attempt.attempt_id)) is not None and not wait.is_answered
    ]


def read_open_attempts(lake: Lake, job_id: str) -> list[Attempt]:
    """Return the attempts of a job that have started and not ended, by arm."""
    return [watched.attempt for watched in read_watched(lake, job_id) if not watched.has_ended]


def read_watched(lake: Lake, job_id: str) -> list[Watched]:
    """Return the attempts of a job with their progress, by arm."""
    journal = existing_journal(lake)
    watched = journal.watching.attempts([experiment_of(job_id)]) if journal else []
    return sorted(watched, key=lambda progress: progress.attempt.arm)


def describe_asks(asks: list[Asking]) -> str:
    """Return what these attempts wait for, as the reason why their job waits."""
    return "; ".join(f"arm {ask.attempt.arm} waits for a person's {ask.wanted}" for ask in asks)


_TASK = re.compile(
    r"## task\n(?:(?P<fence>`{3,})\n)?(?P<text>.*?)\n(?:(?(fence)(?P=fence)|)\n## |\Z)", re.DOTALL
)

Speaker = Literal["person", "agent", "tool"]

_TO_PERSONS = {"answer": ("text", "summary"), "ask": ("question",)}
"""Tools whose use speaks to a person, with the arguments that can hold the text."""


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


def list_remarks(steps: list[RecordedStep], messages: list[InboxMessage]) -> Iterator[Remark]:
    """Yield a conversation in order: messages, answers, questions, and results of tools."""
    read = 0
    calls = [step for step in steps if step.kind == "model"]
    first = min(calls, key=lambda step: step.ordinal, default=None)
    for recorded in sorted(steps, key=lambda step: step.ordinal):
        if recorded is first and (task := _find_task(first)):
            yield Remark("person", "task", task, first.started_at)
        if recorded.result is None:
            continue
        step = from_record(recorded)
        is_inbox = step.kind == "event" and step.request.get("event") == INBOX
        match step.result:
            case ModelReply(message=message):
                yield from _read_reply(step, message)
            case ActionResult(content=content) if is_inbox:
                read = max([read, *(message["n"] for message in content)])
                for message in content:
                    yield _show_message(
                        message["kind"], message["text"], message["sender"], step.started_at
                    )
            case ActionResult(content={"output": str(output)}) if step.request.get("tool"):
                yield Remark("tool", step.request["tool"], output, step.started_at)
    for unread in messages:
        if unread.n > read:
            yield _show_message(
                unread.kind, unread.text, unread.sender, unread.sent_at, is_unread=True
            )


def _find_task(call: RecordedStep) -> str:
    """Return the task in the first prompt of an attempt, the first words of a person."""
    messages = json.loads(call.request)["messages"]
    texts = (str(message["content"]) for message in messages if message["role"] == "user")
    found = _TASK.match(next(texts, ""))
    return found["text"].strip() if found else ""


def _read_reply(step: Step, message: dict[str, Any]) -> Iterator[Remark]:
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


def _show_message(
    kind: str, text: str, sender: str, at: datetime | None, *, is_unread: bool = False
) -> Remark:
    words = text if kind == "say" else f"[{kind}] {text}".rstrip()
    return Remark("person", sender, words, at, is_unread)
