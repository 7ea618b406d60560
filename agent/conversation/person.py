"""Messages of people to a conversation, and the waits for them, as events.

Each reading is recorded in a scope next to the conversation, with the number of the next call. A
replay reads at the same places. A conversation without messages does not have such steps.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from agent.errors import LimitReached
from agent.journal import InboxMessage, Wanted
from agent.session.mail import INBOX
from agent.session.session import Session
from agent.session.steps import digest

_SCOPE = "inbox"

Place = dict[str, Any]
"""The place of a reading in the conversation: before or after the call of a number."""


class Dismissed(LimitReached):
    """A person ended the attempt. The best change so far is submitted."""


@dataclass(frozen=True)
class Decision:
    """The answer to a request for approval."""

    kind: Literal["approve", "revise", "reject"]
    text: str
    sender: str

    @property
    def why(self) -> str:
        """The decision in one line, if it is a rejection."""
        return f"rejected by {self.sender}{f': {self.text}' if self.text.strip() else ''}"


class Person:
    """The people who write to an attempt, for one conversation."""

    def __init__(
        self,
        session: Session,
        *,
        is_chat: bool = False,
        heard: list[InboxMessage] | None = None,
    ) -> None:
        """Use the scope of the conversation.

        In a chat, the end of the attempt is read between two turns. Otherwise it is read before the
        next call. `heard` is filled with the messages, for the next conversations.
        """
        self._heard = [] if heard is None else heard
        self._talk = session
        self._scope = session.scope(_SCOPE)
        self._readings = 0
        self.is_chat = is_chat
        """True if the answers of the conversation go to a person."""

    async def news(self, call: int) -> list[InboxMessage]:
        """Return the messages that come before a call of the conversation, by its number.

        Raises:
            Dismissed: a person ended the attempt.
        """
        return await self._news({"before": call})

    async def _news(self, place: Place) -> list[InboxMessage]:
        news: list[InboxMessage] = []
        while batch := await self._next(place):
            news += batch
        for message in news:
            if message.kind == "end":
                raise make_dismissal(message)
        self._heard += news
        return news

    async def late_news(self, call: int) -> list[InboxMessage]:
        """Return the messages that came during a call that answered.

        Once anything after the answer is on record, it is too late for others.

        Raises:
            Dismissed: a person ended the attempt.
        """
        recorded = self._scope.next_recorded
        if recorded is None and not self._talk.attempt.mail.is_up_to_date(self._talk.steps):
            return []
        return await self._news({"after": call})

    async def _next(self, place: Place) -> list[InboxMessage]:
        mail, batch = self._talk.attempt.mail, list[InboxMessage]()
        recorded = self._scope.next_recorded
        if recorded is not None:
            if not _is_at(recorded.request, place):
                return []
        elif self._talk.next_recorded is not None:
            return []  # the call was made without a message before it
        else:
            reuse = self._talk.attempt.log.reuse
            parent = reuse.request(self._scope.name, self._readings) if reuse else None
            if parent is None or not _is_at(parent, place):  # not read by a reused attempt
                batch = await mail.unread(("say",) if self.is_chat else ("say", "end"))
                if not batch:
                    return []
        return await self._event(place, lambda: mail.read(batch))

    async def _event(
        self, request: Place, read: Callable[[], Awaitable[list[InboxMessage]]]
    ) -> list[InboxMessage]:
        self._readings += 1
        return await self._scope.event(INBOX, request, read, list[InboxMessage], of_people=True)

    async def answer(self, call: int, wanted: Wanted, about: str) -> list[InboxMessage]:
        """Wait for the next messages. Return all of kind `say`, or one other message.

        `about` is the text for the person. `call` is the number of the call before it.

        Raises:
            Waiting: no answer came in time; the next message resumes the attempt.
            Interrupted: the operator asked to stop.
        """
        request: Place = {"before": call, "wanted": wanted}
        if wanted != "message":  # an approval of a parent's patch does not approve another patch
            request["about"] = digest(about.encode("utf-8", "surrogatepass"))
        answers = await self._event(request, lambda: self._talk.attempt.mail.wait(wanted, about))
        self._heard += answers
        return answers


def decision(messages: Sequence[InboxMessage]) -> Decision:
    """Return the decision in messages. A mere message asks for a revision.

    Raises:
        Dismissed: they end the attempt.
    """
    last = messages[-1]
    match last.kind:
        case "end":
            raise make_dismissal(last)
        case "approve" | "reject" as kind:
            return Decision(kind, last.text, last.sender)
        case _:
            return Decision("revise", join_texts(messages), last.sender)


def join_texts(messages: Sequence[InboxMessage]) -> str:
    """Return the texts of messages."""
    return "\n\n".join(message.text for message in messages)


def get_message_facts(heard: Iterable[InboxMessage]) -> dict[str, Any]:
    """Return the texts of messages as a fact of a role; no fact without a text."""
    texts = [message.text for message in heard if message.text.strip()]
    return {"said_by_people": texts} if texts else {}


def make_dismissal(message: InboxMessage) -> Dismissed:
    """Return the error that a message of kind `end` means."""
    why = f": {message.text}" if message.text.strip() else ""
    return Dismissed(f"ended by {message.sender}{why}")


def _is_at(request: bytes, place: Place) -> bool:
    """Return True if a reading was made at a place, and not in a wait."""
    return bool(json.loads(request) == {"event": INBOX, **place})


T = TypeVar("T")


async def until_decided(
    result: T,
    make: Callable[[T, Session], Awaitable[T]],
    describe: Callable[[T], str],
    heard: list[InboxMessage],
    session: Session,
) -> tuple[T, Decision]:
    """Let a person decide about a result, and make another one until they approve or reject it.

    `make` receives the last result. `heard` is filled with the person's messages, and `session` is
    a separate scope. Return the last result, with the decision.

    Raises:
        Dismissed: they ended the attempt.
        Waiting: a decision is missing; the next message resumes the attempt.
    """
    person = Person(session, heard=heard)
    number = 0
    while True:
        verdict = decision(await person.answer(number, "approval", describe(result)))
        if verdict.kind != "revise":
            return result, verdict
        number += 1
        result = await make(result, session.scope(f"made-{number}"))
