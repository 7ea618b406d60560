"""A plan that a person approves before any file is changed."""

from dataclasses import replace
from typing import Any

from pydantic import Field

from agent.capabilities.base import Agent
from agent.capabilities.working import conversation
from agent.conversation.answers import Answer
from agent.conversation.conversation import prompt_beside
from agent.conversation.ends import ended
from agent.conversation.person import Person
from agent.session.session import Session
from agent.types import Outcome

_READING = ("look", "symbols")
"""Capabilities of the agent while it plans."""


class LoopPlan(Answer):
    """The plan, for a person who decides about it."""

    cause: str = Field(description="what is wrong, and where")
    steps: list[str] = Field(min_length=1, description="what to change, file by file")
    check: str = Field(description="how to see that it is right")


async def approved_plan(agent: Agent, session: Session) -> Outcome | dict[str, Any]:
    """Return the facts about a plan that a person approved, or the end of the attempt without one.

    Raises:
        Dismissed: a person ended the attempt.
        Waiting: there is no decision yet; the next message resumes the attempt.
    """
    planner = replace(
        agent,
        capabilities=agent.crew.load(_READING),
        prompt=prompt_beside(__file__, "plan"),
        writes=False,
    )
    facts = {"task": agent.crew.task.statement}
    talk = conversation(planner, facts, LoopPlan, session, Person(session))
    while True:
        exchange = await talk.until_answer()
        plan = exchange.answer
        if plan is None:
            return Outcome(ended(exchange.end), "", f"no plan: {exchange.end}")
        decision = await talk.decided(_shown(plan))
        if decision.kind == "approve":
            return {"plan": plan.model_dump(), "approved_with": decision.text}
        if decision.kind == "reject":
            return Outcome("gave_up", "", decision.why)


def _shown(plan: LoopPlan) -> str:
    """Return a plan as text for a person."""
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(plan.steps, 1))
    return f"{plan.cause}\n\n{steps}\n\nCheck: {plan.check}"
