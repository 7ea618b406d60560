"""The loop arm: one conversation with the capabilities that are switched on, and its change."""

from agent.arms.options import LoopOptions
from agent.capabilities.base import Agent, Crew
from agent.capabilities.registry import load
from agent.capabilities.working import Report, work
from agent.conversation.conversation import prompt_beside
from agent.conversation.exchanges import Exchange
from agent.conversation.limits import LimitReached, Meter
from agent.errors import OutOfTime, ToolFailed
from agent.session.session import Session
from agent.tools import Protection, ToolSettings
from agent.types import Outcome, Task

ROLE = "loop"
"""The role of the first agent. Subagents have the names of their kinds."""

_WORKING_SHARE = 0.95
"""Share of the attempt's time for the work. The rest is for reading the change."""


async def solve(task: Task, session: Session, options: LoopOptions) -> Outcome:
    """Let an agent work on the task until it answers, and submit its change.

    Raises:
        BudgetExhausted: the next call could cost more than is left; a later run resumes.
        InfrastructureError: a model, a tool or a workspace failed.
    """
    limit_s = options.time_limit_s and options.time_limit_s * _WORKING_SHARE
    scope = session.scope("work", limit_s=limit_s)
    try:
        exchange = await work(_agent(task, session, options), task.statement, scope)
    except (LimitReached, ToolFailed) as error:
        return Outcome("gave_up", await session.diff(), str(error))
    except OutOfTime as error:
        return await _out_of_time(session, str(error))
    return _outcome(exchange, await session.diff())


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
    prompt = prompt_beside(__file__, "loop")
    return Agent(crew, ROLE, load(options.capabilities), options.rounds, prompt)


def _outcome(exchange: Exchange[Report], patch: str) -> Outcome:
    answer = exchange.answer
    if answer is None:
        return Outcome("gave_up", patch, exchange.end)
    is_done = answer.status == "done"
    return Outcome("submitted" if is_done else "gave_up", patch, answer.summary)


async def _out_of_time(session: Session, why: str) -> Outcome:
    """Return the change so far, if there is time left to read it."""
    try:
        patch = await session.diff()
    except OutOfTime:
        patch = ""
    return Outcome("out_of_time", patch, why)
