"""The conversation of an agent on the loop, from its task to its report."""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field

from agent.capabilities.base import Agent
from agent.conversation.conversation import Conversation, prompt_beside
from agent.conversation.exchanges import Answer, ConversationLimits, Exchange
from agent.conversation.person import Person
from agent.session.session import Session

A = TypeVar("A", bound=Answer)


class WorkReport(Answer):
    """The end of the work."""

    summary: str = Field(description="what was found or changed, and why that is right")
    status: Literal["done", "blocked"] = Field(
        description="blocked: it cannot be done; the summary says why"
    )


class Spoken(Answer):
    """What the agent says to the person of a chat."""

    text: str


async def work(agent: Agent, task: str, session: Session) -> Exchange[WorkReport]:
    """Let an agent work until it reports. `session` is a scope of its own.

    Raises:
        BudgetExhausted, OutOfTime, LimitReached, InfrastructureError: no call could be made.
        ToolFailed: a tool ended the attempt.
    """
    return await conversation(agent, {"task": task}, WorkReport, session).until_answer()


def conversation(
    agent: Agent,
    facts: Mapping[str, Any],
    answer: type[A],
    session: Session,
    person: Person | None = None,
) -> Conversation[A]:
    """Open the conversation of an agent, with the facts about its task."""
    parts = [agent.prompt, prompt_beside(__file__), *agent.prompts()]
    return Conversation(
        session,
        agent.role,
        "\n\n".join(part.strip() for part in parts if part.strip()),
        {**facts, **_facts(agent, session)},
        answer,
        ConversationLimits(rounds=agent.rounds, meter=agent.crew.meter),
        agent.toolbox,
        agent.helpers(),
        person=person,
    )


def _facts(agent: Agent, session: Session) -> dict[str, Any]:
    tools = agent.crew.tools
    return {
        "root": session.workspaces.root,
        "network": "commands can reach other machines" if session.workspaces.network else "none",
        "command_timeout_s": tools.command_timeout_s,
        "test_timeout_s": tools.test_timeout_s,
    }
