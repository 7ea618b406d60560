"""The inbox of an attempt, on SQLite and PostgreSQL."""

import asyncio
import subprocess
import sys

import pytest

from agent.errors import FencedError, MessageRefused
from agent.journal import Attempt, InboxMessage, Journal, Lease
from agent.journal.bells import Bell
from tests.agent.journal.workers import attempt


def said(text: str, message_id: str = "m", **changed: str) -> InboxMessage:
    """Return a message of kind `say`."""
    return InboxMessage(
        **{"id": message_id, "kind": "say", "sender": "ann", "text": text, **changed}
    )  # type: ignore[arg-type]


def texts(journal: Journal, after: int = 0) -> list[str]:
    return [message.text for message in journal.inbox("a1").read(after)]


def test_messages_have_one_order(journal: Journal, started: Attempt) -> None:
    """They are numbered from 1 on, and read from any position."""
    inbox = journal.inbox("a1")
    sent = [inbox.send(said(text, text)) for text in ("one", "two", "three")]
    assert [each.n for each in sent] == [1, 2, 3]
    assert inbox.read() == sent
    assert texts(journal, after=2) == ["three"]
    assert sent[0].sent_at is not None


def test_sending_again_changes_nothing(journal: Journal, started: Attempt) -> None:
    """The message that was sent first is returned, even after others and after the end."""
    inbox = journal.inbox("a1")
    first = inbox.send(said("one"))
    inbox.send(said("two", "other"))
    assert inbox.send(said("one", sender="bob")) == first
    journal.end(journal.acquire("a1", "worker", 60), "{}")
    assert inbox.send(said("one")) == first
    with pytest.raises(MessageRefused, match="message m was sent before with another text"):
        inbox.send(said("one!"))
    assert texts(journal) == ["one", "two"]


UNFIT = [
    (said(" \n"), "the message is empty: say needs a text"),
    (said("", kind="revise"), "the message is empty: revise needs a text"),
    (said("x" * 1_000_000), "1,000,000 bytes, and at most 100,000 are allowed"),
    (said("a\0b"), "NUL"),
    (said("x", ""), "the id of a message needs 1 to 200 characters"),
    (said("x", "i" * 201), "the id of a message needs 1 to 200 characters"),
    (said("x", sender="a\nb"), "the sender of a message needs 1 to 200 characters"),
    (said("", kind="approve"), "attempt a1 asks for no approval"),
]


def test_unfit_messages_are_refused(journal: Journal, started: Attempt) -> None:
    """The reason is one line, and nothing is sent."""
    for message, why in UNFIT:
        with pytest.raises(MessageRefused, match=why) as refused:
            journal.inbox("a1").send(message)
        assert "\n" not in str(refused.value)
    assert texts(journal) == []


def test_attempts_that_hear_nothing_refuse(journal: Journal, lease: Lease) -> None:
    """An unknown, an ended, a pruned one, and one that was asked to end."""
    journal.start(attempt("a2"))
    first = journal.inbox("a2").send(said("one"))
    journal.inbox("a2").send(said("", "e", kind="end"))
    assert journal.inbox("a2").send(said("one")) == first
    journal.end(lease, "{}")
    journal.release(lease)
    reasons = {"a2": "was asked to end", "a1": "has ended: fork it", "a3": "has no attempt a3"}
    for name, why in reasons.items():
        for kind in ("say", "approve"):
            with pytest.raises(MessageRefused, match=why):
                journal.inbox(name).send(said("hello", "new", kind=kind))
    journal.retention.prune("a1")
    with pytest.raises(MessageRefused, match="its steps were pruned"):
        journal.inbox("a1").send(said("hello"))


def test_a_decision_needs_a_question(journal: Journal, lease: Lease) -> None:
    """It is taken once for each request, and not for a chat that waits."""
    inbox = journal.inbox("a1")
    inbox.begin_wait(lease, "message", "what next?", 0)
    with pytest.raises(MessageRefused, match="asks for no approval"):
        inbox.send(said("", "1", kind="approve"))
    inbox.begin_wait(lease, "approval", "the plan", 0)
    inbox.send(said("", "2", kind="approve"))
    with pytest.raises(MessageRefused, match="is not waiting for an answer"):
        inbox.send(said("", "3", kind="reject"))
    assert inbox.send(said("", "2", kind="approve")).n == 1
    inbox.begin_wait(lease, "approval", "the patch", 1)
    inbox.send(said("", "4", kind="reject"))


def test_a_wait_is_answered_by_the_next_message(journal: Journal, lease: Lease) -> None:
    """Stating it again leaves its time, and only the holder of the attempt states it."""
    inbox = journal.inbox("a1")
    assert inbox.wait() is None
    inbox.send(said("before", "1"))
    inbox.begin_wait(lease, "answer", "which?", 1)
    first = inbox.wait()
    inbox.begin_wait(lease, "answer", "which?", 1)
    assert first == inbox.wait()
    assert first is not None
    assert (first.wanted, first.about) == ("answer", "which?")
    assert not first.is_answered
    inbox.send(said("this one", "2"))
    answered = inbox.wait()
    assert answered is not None
    assert answered.is_answered
    journal.release(lease)
    journal.acquire("a1", "second", 60)
    with pytest.raises(FencedError):
        inbox.begin_wait(lease, "answer", "which?", 1)


_SEND = """
import sys
from agent.journal import InboxMessage, Journal
Journal.open(sys.argv[1]).inbox("a1").send(InboxMessage("m", "say", "hello", "ann"))
"""


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_a_message_of_another_process_wakes_who_waits(
    journal: Journal, started: Attempt, url: str
) -> None:
    """PostgreSQL notifies, so that nobody waits for the next look at the inbox."""
    with Bell("a1", journal.database) as bell, Bell("a2", journal.database) as other:
        waits = [asyncio.create_task(each.wait(60)) for each in (bell, other)]
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", _SEND, url], check=True)
        await asyncio.wait_for(waits[0], 10)
        assert texts(journal) == ["hello"]
        assert not waits[1].done()
        waits[1].cancel()
