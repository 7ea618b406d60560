"""One attempt as the people around it see it: what it is doing, and messages to it."""

import getpass
import json
import secrets
import socket
from dataclasses import dataclass
from typing import Literal

from agent.arms import ARMS
from agent.errors import MessageRefused
from agent.journal import Attempt, InboxMessage, Journal, MessageKind, Wait
from agent.journal.holding import is_dead, worker
from agent.journal.inbox import checked
from flows.display.errors import UsageError
from flows.experiments.secret_kinds import check_readable
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake

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
        waits = self.standing == "waiting" and self.wait is not None
        return waits and self.wait is not None and self.wait.wanted == "approval"

    @property
    def ending(self) -> str:
        """The outcome in a few words; '' before the end."""
        if self.outcome is None:
            return ""
        content = json.loads(self.outcome)
        detail = f" ({content['detail']})" if content["detail"] else ""
        return f"{content['status'].replace('_', ' ')}{detail}"


class Mailbox:
    """The inbox of an attempt, with what the journal says of the attempt."""

    def __init__(self, journal: Journal, attempt: Attempt) -> None:
        self.journal = journal
        self.attempt = attempt
        self._inbox = journal.inbox(attempt.attempt_id)

    @classmethod
    def of(cls, lake: Lake, prefix: str) -> "Mailbox":
        """Return the mailbox of the attempt whose id begins with a text.

        Raises:
            UsageError: there is no such attempt, there are several, or it was pruned.
        """
        journal = existing_journal(lake)
        found = journal.find(prefix) if journal is not None and prefix else []
        if journal is None or len(found) != 1:
            many = f"{len(found)} attempts begin with" if found else "there is no attempt"
            raise UsageError(
                f"{many} {prefix!r} in {lake.root}; `durabench status NAME --cells` lists them"
            )
        if (pruned_at := journal.pruned_at(found[0].attempt_id)) is not None:
            raise UsageError(
                f"attempt {found[0].attempt_id} has ended, and its steps were pruned on "
                f"{pruned_at:%Y-%m-%d}"
            )
        return cls(journal, found[0])

    @property
    def attempt_id(self) -> str:
        return self.attempt.attempt_id

    def seen(self) -> Seen:
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
            MessageRefused: as for `send`.
        """
        return send(self.journal, self.attempt, message)

    def received(self) -> list[InboxMessage]:
        """Return all messages, in order."""
        return self._inbox.read()


def send(journal: Journal, attempt: Attempt, message: InboxMessage) -> InboxMessage:
    """Send a message to an attempt. Return it as it was sent first.

    Raises:
        MessageRefused: its agent hears no messages, or as in `Inbox.send`.
    """
    check_hears(attempt)
    check(message)
    return journal.inbox(attempt.attempt_id).send(message)


def check(message: InboxMessage) -> None:
    """Return if a message can be sent to an attempt.

    Raises:
        MessageRefused: it has no text, or holds a secret or what cannot be stored.
    """
    checked(message)
    try:
        check_readable({"text": message.text, "sender": message.sender})
    except ValueError as error:
        raise MessageRefused(str(error)) from None


def check_hears(attempt: Attempt) -> None:
    """Return if the agent of an attempt hears messages.

    Raises:
        MessageRefused: it does not.
    """
    if not hears(attempt):
        *others, last = (name for name, arm in ARMS.items() if arm.hears)
        raise MessageRefused(
            f"attempt {attempt.attempt_id} is of agent {agent_of(attempt)}, whose conversation is "
            f"its own: only {', '.join(others)} and {last} hear messages"
        )


def hears(attempt: Attempt) -> bool:
    """Return True if the agent of an attempt hears messages."""
    agent = agent_of(attempt)
    return agent in ARMS and ARMS[agent].hears


def agent_of(attempt: Attempt) -> str:
    """Return the agent of an attempt."""
    return str(json.loads(attempt.spec).get("agent", ""))
