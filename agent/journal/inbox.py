"""The inbox of an attempt: messages of people to it, in one order for all readers.

Sending is idempotent: a message has an id of its sender's choice, and a second message with the
same id and text is the first one. An attempt states what it waits for, so that a decision without
a request is refused.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast

from sqlalchemy import Connection

from agent.errors import MessageRefused
from agent.journal import leases
from agent.journal.bells import ring, ring_elsewhere
from agent.journal.database import Database, execute, reads, writes
from agent.journal.types import Lease

MessageKind = Literal["say", "end", "approve", "revise", "reject"]
"""Kinds of messages.

`say` is read by the model before its next call, or in answer to it. `end` ends the attempt.
`approve`, `revise` and `reject` answer a request for approval.
"""

Wanted = Literal["message", "answer", "approval"]
"""Things that an attempt waits for: the next message of a chat, an answer, or a decision."""

DECISIONS: tuple[MessageKind, ...] = ("approve", "revise", "reject")
"""The kinds of messages that answer a request for approval."""

MOST_BYTES = 100_000
"""Maximum length of a message. A model would have to read all of it with every later call."""

_LAST = "(SELECT MAX(last.n) FROM inbox AS last WHERE last.attempt_id = :attempt_id)"
_MOST_NAME = 200


@dataclass(frozen=True)
class InboxMessage:
    """One message to an attempt."""

    id: str
    """Chosen by the sender, unique within the attempt."""
    kind: MessageKind
    text: str
    """The text for the model. Only `say` and `revise` need one."""
    sender: str
    n: int = 0
    """Position in the inbox, from 1 on; 0 before it is sent."""
    sent_at: datetime | None = None
    """By the journal's clock, UTC; None before it is sent."""


@dataclass(frozen=True)
class Wait:
    """A wait of an attempt for a person."""

    attempt_id: str
    wanted: Wanted
    about: str
    """The answer, the question, the plan or the patch that needs a reaction."""
    after: int
    """Position of the last message that the attempt had read."""
    since: datetime
    is_answered: bool
    """True if a message has come that ends the wait. The attempt may not have read it yet."""


class Inbox:
    """The messages of one attempt. Every method is one transaction."""

    def __init__(self, database: Database, attempt_id: str) -> None:
        self.attempt_id = attempt_id
        self.database = database

    def send(self, message: InboxMessage) -> InboxMessage:
        """Add a message. Return it with its position, as it was sent first.

        Raises:
            MessageRefused: the attempt is unknown, ended or pruned, the message is empty or too
                long, its id belongs to another one, or it is a decision without a request.
        """
        check_message(message)
        sent = self.database.write(_send, self.attempt_id, message)
        ring(self.attempt_id)
        return sent

    @reads
    def read(self, connection: Connection, after: int = 0) -> list[InboxMessage]:
        """Return the messages after a position, in order."""
        statement = "SELECT * FROM inbox WHERE attempt_id = :attempt_id AND n > :after ORDER BY n"
        rows = execute(connection, statement, attempt_id=self.attempt_id, after=after)
        return [_to_message(row) for row in rows]

    @reads
    def wait(self, connection: Connection) -> Wait | None:
        """Return what the attempt has last waited for; None if it never did, or has ended."""
        return waiting(connection, [self.attempt_id]).get(self.attempt_id)

    @writes
    def begin_wait(
        self, connection: Connection, lease: Lease, wanted: Wanted, about: str, after: int
    ) -> None:
        """State what the attempt waits for. Stating it again keeps the time of the first statement.

        Raises:
            FencedError: another worker has acquired the attempt.
        """
        leases.check(connection, lease)
        execute(
            connection,
            """
            INSERT INTO waits (attempt_id, wanted, about, after, since)
            VALUES (:attempt_id, :wanted, :about, :after, clock())
            ON CONFLICT (attempt_id) DO UPDATE SET
                wanted = excluded.wanted, about = excluded.about, after = excluded.after,
                since = excluded.since
            WHERE waits.wanted <> excluded.wanted OR waits.about <> excluded.about
                OR waits.after <> excluded.after
            """,
            attempt_id=lease.attempt_id,
            wanted=wanted,
            about=about,
            after=after,
        )


def check_message(message: InboxMessage) -> None:
    """Check a message without regard to its attempt.

    Raises:
        MessageRefused: it is empty or too long, or its id or sender is.
    """
    if message.kind in ("say", "revise") and not message.text.strip():
        raise MessageRefused(f"the message is empty: {message.kind} needs a text")
    size = len(message.text.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        raise MessageRefused(
            f"the message has {size:,} bytes, and at most {MOST_BYTES:,} are allowed: put the text "
            "into a file of the repository and name it"
        )
    if "\0" in message.text:
        raise MessageRefused("the message holds a NUL character: send text")
    for what, name in (("id", message.id), ("sender", message.sender)):
        if not name.strip() or len(name) > _MOST_NAME or not name.isprintable():
            raise MessageRefused(f"the {what} of a message needs 1 to {_MOST_NAME} characters")


def waiting(connection: Connection, names: list[str]) -> dict[str, Wait]:
    """Return what attempts wait for, or have last waited for, by id."""
    statement = """
        SELECT attempt_id, wanted, about, after, since, EXISTS (
            SELECT 1 FROM inbox
            WHERE inbox.attempt_id = waits.attempt_id AND inbox.n > waits.after
        ) AS is_answered
        FROM waits WHERE attempt_id IN (SELECT value FROM json_each(:names))
    """
    rows = execute(connection, statement, names=json.dumps(names))
    return {
        row.attempt_id: Wait(
            row.attempt_id,
            cast("Wanted", row.wanted),
            row.about,
            row.after,
            datetime.fromtimestamp(row.since, UTC),
            bool(row.is_answered),
        )
        for row in rows
    }


def _send(connection: Connection, attempt_id: str, message: InboxMessage) -> InboxMessage:
    # The lock keeps the order of positions the order of commits, and an end from coming between.
    statement = "SELECT outcome, pruned_at FROM attempts WHERE attempt_id = :attempt_id FOR UPDATE"
    attempt = execute(connection, statement, attempt_id=attempt_id).fetchone()
    if attempt is None:
        raise MessageRefused(f"the journal has no attempt {attempt_id}")
    # A message that ends the attempt is the last one. Reading all would take longer with each.
    statement = f"""
        SELECT * FROM inbox
        WHERE attempt_id = :attempt_id AND (message_id = :message_id OR n = {_LAST})
    """
    rows = execute(connection, statement, attempt_id=attempt_id, message_id=message.id).fetchall()
    for row in rows:
        if row.message_id != message.id:
            continue
        if (row.kind, row.text) != (message.kind, message.text):
            raise MessageRefused(
                f"message {message.id} was sent before with another text: choose another id"
            )
        return _to_message(row)
    if attempt.pruned_at is not None:
        raise MessageRefused(f"attempt {attempt_id} has ended, and its steps were pruned")
    if attempt.outcome is not None:
        raise MessageRefused(f"attempt {attempt_id} has ended: fork it to continue from there")
    if any(row.kind == "end" for row in rows):
        raise MessageRefused(f"attempt {attempt_id} was asked to end, and takes no more messages")
    if message.kind in DECISIONS:
        wait = waiting(connection, [attempt_id]).get(attempt_id)
        if wait is None or wait.wanted != "approval":
            raise MessageRefused(f"attempt {attempt_id} asks for no approval")
        if wait.is_answered:
            raise MessageRefused(f"attempt {attempt_id} is not waiting for an answer")
    row = execute(
        connection,
        f"""
        INSERT INTO inbox (attempt_id, n, message_id, kind, text, sender, sent_at)
        SELECT :attempt_id, COALESCE({_LAST}, 0) + 1, :message_id, :kind, :text, :sender, clock()
        RETURNING *
        """,
        attempt_id=attempt_id,
        message_id=message.id,
        kind=message.kind,
        text=message.text,
        sender=message.sender,
    ).fetchone()
    ring_elsewhere(connection, attempt_id)
    return _to_message(row)


def _to_message(row: Any) -> InboxMessage:
    kind, sent_at = cast("MessageKind", row.kind), datetime.fromtimestamp(row.sent_at, UTC)
    return InboxMessage(row.message_id, kind, row.text, row.sender, row.n, sent_at)
