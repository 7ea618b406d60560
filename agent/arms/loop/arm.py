"""The loop arm: one conversation with the capabilities that are switched on, and its change."""

from dataclasses import replace

from agent.arms.loop.chatting import chat
from agent.arms.loop.planning import approved_plan
from agent.arms.options import LoopOptions
from agent.capabilities.base import Agent, Crew
from agent.capabilities.checking import FIRST
from agent.capabilities.registry import load
from agent.capabilities.working import WorkReport, conversation
from agent.conversation.conversation import Conversation, prompt_beside
from agent.conversation.ends import ended
from agent.conversation.limits import LimitReached, Meter
from agent.conversation.person import Person
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
    outcome = await _ended(_agent(task, session, options), session, options)
    if options.approval == "patch" and outcome.status != "submitted":
        return replace(outcome, patch="")  # it was not approved
    return outcome


async def _ended(agent: Agent, session: Session, options: LoopOptions) -> Outcome:
    limit_s = options.time_limit_s and options.time_limit_s * _WORKING_SHARE
    try:
        if options.interactive:
            return await chat(agent, session, session.scope("work", limit_s=limit_s))
        return await _solved(agent, session, options, limit_s)
    except (LimitReached, ToolFailed) as error:
        return Outcome(ended(error), await session.diff(), str(error))
    except OutOfTime as error:
        return await _out_of_time(session, error)


async def _solved(
    agent: Agent, session: Session, options: LoopOptions, limit_s: float | None
) -> Outcome:
    facts = {"task": agent.crew.task.statement}
    if options.approval == "plan":
        plan = await approved_plan(agent, session.scope("plan", limit_s=limit_s))
        if isinstance(plan, Outcome):
            return plan
        facts |= plan
    scope = session.scope("work", limit_s=limit_s)
    talk = conversation(agent, facts, WorkReport, scope, Person(scope))
    return await _submitted(talk, session, options)


async def _submitted(
    talk: Conversation[WorkReport], session: Session, options: LoopOptions
) -> Outcome:
    """Let the agent work until it answers, and until a person has approved if one has to."""
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
