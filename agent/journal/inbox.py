"""The inbox of an attempt: messages of people to it, in one order for all readers.

Sending is idempotent: a message has an id of its sender's choice, and a second message with the
same id and text is the first one. An attempt states what it waits for, so that a decision without
a request is refused.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast

from sqlalchemy import Connection, Row, and_, bindparam, delete, func, insert, or_, select

from agent.errors import MessageRefused
from agent.journal import leases
from agent.journal.database import Database, clock, reads, writes
from agent.journal.tables import PreparedStatement, attempts, inbox, waits
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

# Built once: to build a statement takes longer than to carry it out.
_OWN = inbox.c.attempt_id == bindparam("of")
_LATER = and_(_OWN, inbox.c.n > bindparam("after"))
_LOCK = PreparedStatement(
    select(attempts.c.outcome, attempts.c.pruned_at)
    .where(attempts.c.attempt_id == bindparam("of"))
    .with_for_update()
)
_LAST_N = select(func.max(inbox.c.n)).where(_OWN).scalar_subquery()
_SAME_AND_LAST = PreparedStatement(
    select(inbox).where(_OWN, or_(inbox.c.message_id == bindparam("message"), inbox.c.n == _LAST_N))
)
_READ = PreparedStatement(select(inbox).where(_LATER).order_by(inbox.c.n))
_ADD = PreparedStatement(
    insert(inbox)
    .values(
        n=func.coalesce(_LAST_N, 0) + 1,
        sent_at=clock(),
    )
    .returning(inbox),
    ("attempt_id", "message_id", "kind", "text", "sender"),
)
_IS_ANSWERED = select(select(inbox.c.n).where(_LATER).exists())
_WAIT = select(waits).where(waits.c.attempt_id == bindparam("of"))
_FORGET_WAIT = delete(waits).where(waits.c.attempt_id == bindparam("of"))
_BEGIN_WAIT = insert(waits).values(since=clock())

_WITH_TEXT = ("say", "revise")
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
        return self.database.write(lambda connection: _send(connection, self.attempt_id, message))

    @reads
    def read(self, connection: Connection, after: int = 0) -> list[InboxMessage]:
        """Return the messages after a position, in order."""
        rows = _READ.run(connection, {"of": self.attempt_id, "after": after})
        return [_message(row) for row in rows]

    @reads
    def wait(self, connection: Connection) -> Wait | None:
        """Return what the attempt has last waited for; None if it never did, or has ended."""
        return waiting(connection, [self.attempt_id]).get(self.attempt_id)

    @writes
    def begin_wait(
        self, connection: Connection, lease: Lease, wanted: Wanted, about: str, after: int
    ) -> None:
        """State what the attempt waits for. Stating it again leaves the time at which it began.

        Raises:
            FencedError: another worker has acquired the attempt.
        """
        leases.check(connection, lease)
        known = connection.execute(_WAIT, {"of": lease.attempt_id}).first()
        row = (lease.attempt_id, wanted, about, after)
        if known is not None and tuple(known[: len(row)]) == row:
            return
        connection.execute(_FORGET_WAIT, {"of": lease.attempt_id})
        values = dict(zip(waits.columns.keys(), row, strict=False))
        connection.execute(_BEGIN_WAIT, values)


def check_message(message: InboxMessage) -> None:
    """Check a message without regard to its attempt.

    Raises:
        MessageRefused: it is empty or too long, or its id or sender is.
    """
    if message.kind in _WITH_TEXT and not message.text.strip():
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
    chosen = select(waits).where(waits.c.attempt_id.in_(names))
    return {
        row.attempt_id: _wait(row, _is_answered(connection, row))
        for row in connection.execute(chosen).all()
    }


def forget(connection: Connection, attempt_id: str) -> None:
    """Remove the messages of an attempt."""
    for table in (inbox, waits):
        connection.execute(delete(table).where(table.c.attempt_id == attempt_id))


def _send(connection: Connection, attempt_id: str, message: InboxMessage) -> InboxMessage:
    # The lock keeps the order of positions that of commits, and an end from coming between.
    attempt = _LOCK.run(connection, {"of": attempt_id}).fetchone()
    if attempt is None:
        raise MessageRefused(f"the journal has no attempt {attempt_id}")
    earlier = _same_and_last(connection, attempt_id, message.id)
    for known in earlier:
        if known.id != message.id:
            continue
        if (known.kind, known.text) != (message.kind, message.text):
            raise MessageRefused(
                f"message {message.id} was sent before with another text: choose another id"
            )
        return known
    if attempt.pruned_at is not None:
        raise MessageRefused(f"attempt {attempt_id} has ended, and its steps were pruned")
    if attempt.outcome is not None:
        raise MessageRefused(f"attempt {attempt_id} has ended: fork it to continue from there")
    if any(known.kind == "end" for known in earlier):
        raise MessageRefused(f"attempt {attempt_id} was asked to end, and takes no more messages")
    if message.kind in DECISIONS:
        _check_asked(connection, attempt_id)
    return _add(connection, attempt_id, message)


def _check_asked(connection: Connection, attempt_id: str) -> None:
    asked = waiting(connection, [attempt_id]).get(attempt_id)
    if asked is None or asked.wanted != "approval":
        raise MessageRefused(f"attempt {attempt_id} asks for no approval")
    if asked.is_answered:
        raise MessageRefused(f"attempt {attempt_id} has its answer, and asks for no other one yet")


def _add(connection: Connection, attempt_id: str, message: InboxMessage) -> InboxMessage:
    row = {
        "attempt_id": attempt_id,
        "message_id": message.id,
        "kind": message.kind,
        "text": message.text,
        "sender": message.sender,
    }
    return _message(_ADD.run(connection, {**row, "of": attempt_id}).fetchone())


def _same_and_last(connection: Connection, attempt_id: str, message_id: str) -> list[InboxMessage]:
    """Return the message with that id and the last one, if there are any.

    A message that ends the attempt is the last one. Reading all would take longer with each.
    """
    rows = _SAME_AND_LAST.run(connection, {"of": attempt_id, "message": message_id})
    return [_message(row) for row in rows]


def _message(row: Row[Any]) -> InboxMessage:
    kind, sent_at = cast("MessageKind", row.kind), datetime.fromtimestamp(row.sent_at, UTC)
    return InboxMessage(row.message_id, kind, row.text, row.sender, row.n, sent_at)


def _wait(row: Row[Any], is_answered: bool) -> Wait:
    since, wanted = datetime.fromtimestamp(row.since, UTC), cast("Wanted", row.wanted)
    return Wait(row.attempt_id, wanted, row.about, row.after, since, is_answered)


def _is_answered(connection: Connection, wait: Row[Any]) -> bool:
    asked = {"of": wait.attempt_id, "after": wait.after}
    return bool(connection.execute(_IS_ANSWERED, asked).scalar_one())
