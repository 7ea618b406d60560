"""The loop arm: one conversation with the capabilities that are switched on, and its change.

In a chat, the agent works until it says something, then waits for the next message of a person. A
person may also approve a plan before any file is changed.
"""

from dataclasses import replace
from typing import Any

from pydantic import Field

from agent.arms.options import LoopOptions
from agent.capabilities.base import Agent, Crew, Spoken, WorkReport, conversation
from agent.capabilities.registry import FIRST, load
from agent.conversation.conversation import prompt_beside
from agent.conversation.exchanges import Answer, Exchange, LimitReached, Meter, ended
from agent.conversation.person import Dismissed, Person
from agent.errors import OutOfTime, ToolFailed
from agent.session.session import Session
from agent.tools import Protection, ToolSettings
from agent.types import Outcome, Task

_WORKING_SHARE = 0.95
"""Share of the attempt's time for the work. The rest is for reading the change."""


async def solve(task: Task, session: Session, options: LoopOptions) -> Outcome:
    """Let an agent work on the task until it answers, and submit its change.

    Messages of people are heard before each of its calls.

    Raises:
        BudgetExhausted: the next call could cost more than is left; a later run resumes.
        InfrastructureError: a model, a tool or a workspace failed.
        Waiting: a person has not answered yet; the next message resumes the attempt.
    """
    agent = _agent(task, session, options)
    limit_s = options.time_limit_s and options.time_limit_s * _WORKING_SHARE
    try:
        if options.interactive:
            outcome = await chat(agent, session, session.scope("work", limit_s=limit_s))
        else:
            outcome = await _work(agent, session, options, limit_s)
    except (LimitReached, ToolFailed) as error:
        outcome = Outcome(ended(error), await session.diff(), str(error))
    except OutOfTime as error:
        outcome = await _out_of_time(session, error)
    if options.approval == "patch" and outcome.status != "submitted":
        return replace(outcome, patch="")  # it was not approved
    return outcome


async def _work(
    agent: Agent, session: Session, options: LoopOptions, limit_s: float | None
) -> Outcome:
    """Let the agent work until it answers, and until a person has approved if one has to."""
    facts: dict[str, Any] = {"task": agent.crew.task.statement}
    if options.approval == "plan":
        plan = await approved_plan(agent, session.scope("plan", limit_s=limit_s))
        if isinstance(plan, Outcome):
            return plan
        facts |= plan
    scope = session.scope("work", limit_s=limit_s)
    talk = conversation(agent, facts, WorkReport, scope, Person(scope))
    while True:
        exchange = await talk.until_answer()
        patch = await session.diff()
        answer = exchange.answer
        if answer is None:
            return Outcome(ended(exchange.end), patch, exchange.end)
        if answer.status != "done":
            return Outcome("gave_up", patch, answer.summary)
        if options.approval != "patch":
            return Outcome("submitted", patch, answer.summary)
        decision = await talk.decided(f"{answer.summary}\n\n{patch or 'No file was changed.'}")
        if decision.kind == "approve":
            return Outcome("submitted", patch, answer.summary)
        if decision.kind == "reject":
            return Outcome("gave_up", patch, decision.why)


def _agent(task: Task, session: Session, options: LoopOptions) -> Agent:
    """Return the first agent of the attempt."""
    crew = Crew(
        task,
        Meter(session, options.limits.calls, options.limits.usd),
        ToolSettings(task.runner, options.timeouts.command_s, options.timeouts.test_s),
        Protection(new_tests=True, is_on=options.protect_tests),
        options.programs,
        options.subagents,
        load,
    )
    prompt = prompt_beside(__file__, "chat" if options.interactive else "loop")
    return Agent(crew, FIRST, load(options.capabilities), options.rounds, prompt)


async def _out_of_time(session: Session, error: OutOfTime) -> Outcome:
    """Return the change so far, if there is time left to read it."""
    try:
        patch = await session.diff()
    except OutOfTime:
        patch = ""
    return Outcome(ended(error), patch, str(error))


_ENDS = {
    "malformed": "I could not answer: my last replies were malformed.",
    "out_of_rounds": "I stop here, because this turn has used up its model calls.",
}


async def chat(agent: Agent, session: Session, scope: Session) -> Outcome:
    """Talk about the task until a person ends the chat. Submit the change that was made by then.

    Without a text of the task, the first message begins the chat. `scope` is for the conversation.

    Raises:
        Waiting: no message came for a while; the next one resumes the attempt.
    """
    task = agent.crew.task.statement
    talk = conversation(agent, {"task": task}, Spoken, scope, Person(scope, is_chat=True))
    said = ""
    is_open = bool(task.strip())
    while True:
        if is_open:
            try:
                exchange = await talk.until_answer()
            except Dismissed as error:  # in answer to a question of the agent
                return Outcome("submitted", await session.diff(), str(error))
            if exchange.end == "context_full":
                return Outcome(
                    ended(exchange.end), await session.diff(), "the context window is full"
                )
            said = _said(exchange)
        messages = await talk.hear(said)
        if any(message.kind == "end" for message in messages):
            return Outcome("submitted", await session.diff(), said)
        is_open = True


def _said(exchange: Exchange[Spoken]) -> str:
    if exchange.answer is not None:
        return exchange.answer.text
    return _ENDS.get(exchange.end, f"I stop here: {exchange.end}.")


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
