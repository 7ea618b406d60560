"""The people that a conversation hears: their messages, and the waits for them, as events.

Each reading is recorded in a scope beside the conversation, with the call that it came before. A
replay reads at the same places. A conversation without messages has no such steps.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from agent.conversation.exchanges import LimitReached
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
    """Everybody who writes to an attempt, as one conversation hears them."""

    def __init__(
        self,
        session: Session,
        *,
        is_chat: bool = False,
        heard: list[InboxMessage] | None = None,
    ) -> None:
        """Use the scope of the conversation.

        In a chat, the end of the attempt is read between two turns. Otherwise it is read before the
        next call. `heard` is filled with what is read, for conversations that follow.
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
        if ended := [message for message in news if message.kind == "end"]:
            raise make_dismissal(ended[0])
        self._heard += news
        return news

    async def late_news(self, call: int) -> list[InboxMessage]:
        """Return the messages that came during a call that answered.

        Once anything after the answer is on record, it is too late for others.

        Raises:
            Dismissed: a person ended the attempt.
        """
        known = self._scope.next_recorded
        if known is None and not self._talk.attempt.mail.is_up_to_date(self._talk.steps):
            return []
        return await self._news({"after": call})

    async def _next(self, place: Place) -> list[InboxMessage]:
        mail, batch = self._talk.attempt.mail, list[InboxMessage]()
        known = self._scope.next_recorded
        if known is not None:
            if not _is_at(known.request, place):
                return []
        elif self._talk.next_recorded is not None:
            return []  # the call was made without a message before it
        elif not self._is_reused(place):
            batch = await mail.unread(("say",) if self.is_chat else ("say", "end"))
            if not batch:
                return []
        return await self._event(place, lambda: mail.read(batch))

    def _is_reused(self, place: Place) -> bool:
        """Return True if the attempt that this one reuses has read messages here."""
        request = self._talk.attempt.mail.parent_request(self._scope.name, self._readings)
        return request is not None and _is_at(request, place)

    async def _event(
        self, request: Place, read: Callable[[], Awaitable[list[InboxMessage]]]
    ) -> list[InboxMessage]:
        self._readings += 1
        return await self._scope.event(INBOX, request, read, list[InboxMessage], of_people=True)

    async def answer(self, call: int, wanted: Wanted, about: str) -> list[InboxMessage]:
        """Wait for the next messages. Return all next ones of kind `say`, or one other message.

        `about` is what the person is to react to. `call` is the number of the call before it.

        Raises:
            Waiting: no answer came in time; the next message resumes the attempt.
            Interrupted: the operator asked to stop.
        """
        # An approval of a parent's patch is none of another one. Talk is talk.
        shown = about.encode("utf-8", "surrogatepass")
        to = {} if wanted == "message" else {"about": digest(shown)}
        request = {"before": call, "wanted": wanted, **to}
        answers = await self._event(request, lambda: self._talk.attempt.mail.wait(wanted, about))
        self._heard += answers
        return answers


def decision(messages: Sequence[InboxMessage]) -> Decision:
    """Return what messages decide. What a person merely says is to be worked on first.

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
