"""Messages from people to attempts, checked against what the agent of the attempt can hear."""

import json

from agent.arms import ARMS
from agent.errors import MessageRefused, Waiting
from agent.journal import Attempt, InboxMessage, Journal
from agent.journal.inbox import checked
from flows.experiments.secret_kinds import check_readable


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


def check_answered(journal: Journal, attempt_id: str) -> None:
    """Return if an attempt does not wait for a person, or has an answer.

    Raises:
        Waiting: no answer has come since its last run.
    """
    wait = journal.inbox(attempt_id).wait()
    if wait is not None and not wait.is_answered:
        raise Waiting.for_a(wait.wanted)


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
