"""A chat: people send messages to an attempt, which waits for them and keeps what was said."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.arms import ARMS
from agent.arms.options import LoopOptions
from agent.errors import MessageRefused, Waiting
from agent.journal import InboxMessage
from agent.types import Outcome, Task
from flows.jobs.mailbox import list_remarks
from tests.walkthrough.one_attempt import OneAttempt, PaidModel

TASK = Task("demo", "What is here?", "HEAD", "")
CHATTING = LoopOptions(interactive=True, capabilities=["files"])


@pytest.fixture
def attempt(tmp_path: Path, set_timings: Callable[..., None]) -> OneAttempt:
    """Return an attempt that gives its worker back as soon as it waits."""
    set_timings(idle_s=0.0)
    return OneAttempt(tmp_path)


async def talk(attempt: OneAttempt, model: PaidModel) -> Outcome | None:
    """Let the agent work until it ends, or waits for a person. Return None in that case."""
    async with attempt.session(model) as session:
        try:
            return await ARMS["loop"].solve(TASK, session, CHATTING)
        except Waiting:
            return None


def say(attempt: OneAttempt, text: str, message_id: str, kind: str = "say") -> InboxMessage:
    message = InboxMessage(message_id, kind, text, "ann")  # type: ignore[arg-type]
    return attempt.journal.inbox("first").send(message)


async def test_a_chat_waits_for_a_person(attempt: OneAttempt) -> None:
    """After each answer it waits, and the next message makes it continue. No call is repeated."""
    model = PaidModel()
    assert await talk(attempt, model) is None
    waiting = attempt.journal.inbox("first").wait()
    assert waiting is not None
    assert (waiting.wanted, waiting.about) == ("message", "1")  # the model's answer
    say(attempt, "And then?", "a")
    assert await talk(attempt, model) is None
    say(attempt, "", "b", kind="end")
    outcome = await talk(attempt, model)
    assert outcome is not None
    assert (outcome.status, outcome.detail) == ("submitted", "2")
    assert (model.calls, attempt.account().calls_billed) == (2, 2)


async def test_what_was_said_is_on_record(attempt: OneAttempt) -> None:
    """Messages and answers are steps of the attempt, in the order in which they were read."""
    model = PaidModel()
    await talk(attempt, model)
    say(attempt, "And then?", "a")
    await talk(attempt, model)
    said = list_remarks(attempt.journal.steps("first"), attempt.journal.inbox("first").read())
    assert [(each.name, each.text) for each in said] == [
        ("task", TASK.statement),
        ("loop", "1"),
        ("ann", "And then?"),
        ("loop", "2"),
    ]


async def test_a_message_is_sent_once(attempt: OneAttempt) -> None:
    """A message that is sent again is the first one, and its id belongs to its text."""
    first = say(attempt, "hello", "a")
    assert say(attempt, "hello", "a") == first
    with pytest.raises(MessageRefused, match="sent before with another text"):
        say(attempt, "goodbye", "a")
    with pytest.raises(MessageRefused, match="asks for no approval"):
        say(attempt, "", "b", kind="approve")
