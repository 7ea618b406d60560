"""The conversation of an agent on the loop, from its task to its report."""

from typing import Any, Literal

from pydantic import Field

from agent.capabilities.base import Agent
from agent.conversation.answers import Answer
from agent.conversation.conversation import converse, prompt_beside
from agent.conversation.exchanges import Exchange, Limits
from agent.session.session import Session


class Report(Answer):
    """The end of the work."""

    summary: str = Field(description="what was found or changed, and why that is right")
    status: Literal["done", "blocked"] = Field(
        description="blocked: it cannot be done; the summary says why"
    )


async def work(agent: Agent, task: str, session: Session) -> Exchange[Report]:
    """Let an agent work until it reports. `session` is a scope of its own.

    Raises:
        BudgetExhausted, OutOfTime, LimitReached, InfrastructureError: no call could be made.
        ToolFailed: a tool ended the attempt.
    """
    parts = [agent.prompt, prompt_beside(__file__), *agent.prompts()]
    return await converse(
        session,
        agent.role,
        "\n\n".join(part.strip() for part in parts if part.strip()),
        _facts(agent, task, session),
        Report,
        Limits(rounds=agent.rounds, meter=agent.crew.meter),
        agent.toolbox,
        agent.helpers(),
    )


def _facts(agent: Agent, task: str, session: Session) -> dict[str, Any]:
    tools = agent.crew.tools
    return {
        "task": task,
        "root": session.root,
        "network": "commands can reach other machines" if session.network else "none",
        "command_timeout_s": tools.command_timeout_s,
        "test_timeout_s": tools.test_timeout_s,
    }
