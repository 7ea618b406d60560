"""Approvals of what was made outside a conversation, such as a change that was verified."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from agent.conversation.person import Decision, Person, decision
from agent.journal import InboxMessage
from agent.session.session import Session

T = TypeVar("T")


async def until_decided(
    made: T,
    make: Callable[[T, Session], Awaitable[T]],
    shown: Callable[[T], str],
    heard: list[InboxMessage],
    session: Session,
) -> tuple[T, Decision]:
    """Let a person decide about what was made, and make another one as long as they want that.

    `make` receives the last one. `heard` is filled with what the person says, and `session` is a
    scope of its own. Return what they approved or rejected, with the decision.

    Raises:
        Dismissed: they ended the attempt.
        Waiting: there is no decision yet; the next message resumes the attempt.
    """
    person = Person(session, heard=heard)
    number = 0
    while True:
        decided = decision(await person.answer(number, "approval", shown(made)))
        if decided.kind != "revise":
            return made, decided
        number += 1
        made = await make(made, session.scope(f"made-{number}"))
