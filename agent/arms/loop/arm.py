"""The loop arm: one conversation with the selected capabilities, and its change.

In a chat, the agent works until it says something, then waits for the next message of a person. A
person can also approve a plan before any file is changed.
"""

from dataclasses import replace
from typing import Any

from pydantic import Field

from agent.arms.options import LoopOptions
from agent.capabilities.base import Agent, Crew, Spoken, WorkReport, conversation
from agent.capabilities.registry import FIRST, load
from agent.conversation.conversation import prompt_beside
from agent.conversation.exchanges import Answer, Meter
from agent.conversation.person import Dismissed, Person
from agent.errors import LimitReached, OutOfTime, ToolFailed
from agent.session.session import Session
from agent.tools import Protection, ToolSettings
from agent.types import Outcome, Task, get_end_status


async def solve(task: Task, session: Session, options: LoopOptions) -> Outcome:
    """Let an agent work on the task until it answers, and submit its change.

    Messages of people are read before each of its calls.

    Raises:
        BudgetExhausted: the next call could cost more than is left; a later run resumes.
        InfrastructureError: a model, a tool or a workspace failed.
        Waiting: a person has not answered yet; the next message resumes the attempt.
    """
    crew = Crew(
        task,
        Meter(session, options.limits.calls, options.limits.usd),
        ToolSettings(task.runner, options.timeouts.command_s, options.timeouts.test_s),
        Protection(new_tests=True, is_on=options.protect_tests and not task.for_reviewers),
        load,
        options.programs,
        options.subagents,
    )
    name = "chat" if options.interactive else "loop"
    prompt = prompt_beside(__file__, name, for_reviewers=task.for_reviewers)
    agent = Agent(crew, FIRST, load(options.capabilities), options.rounds, prompt)
    try:
        if options.interactive:
            scope = session.scope("work", limit_s=options.working_limit_s)
            outcome = await chat(agent, session, scope)
        else:
            outcome = await _work(agent, session, options)
    except (LimitReached, ToolFailed) as error:
        outcome = Outcome(get_end_status(error), await session.diff(), str(error))
    except OutOfTime as error:
        try:
            patch = await session.diff()
        except OutOfTime:
            patch = ""
        outcome = Outcome(get_end_status(error), patch, str(error))
    if options.approval == "patch" and outcome.status != "submitted":
        return replace(outcome, patch="")  # it was not approved
    return outcome


async def _work(agent: Agent, session: Session, options: LoopOptions) -> Outcome:
    """Let the agent work until it answers, and until a person has approved if required."""
    limit_s = options.working_limit_s
    facts: dict[str, Any] = {"task": agent.crew.task.statement}
    if options.approval == "plan":
        plan = await approve_plan(agent, session.scope("plan", limit_s=limit_s))
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
            return Outcome(get_end_status(exchange.end), patch, exchange.end)
        if answer.status != "done":
            return Outcome("gave_up", patch, answer.summary)
        if options.approval != "patch":
            return Outcome("submitted", patch, answer.summary)
        decision = await talk.wait_for_decision(
            f"{answer.summary}\n\n{patch or 'No file was changed.'}"
        )
        if decision.kind == "approve":
            return Outcome("submitted", patch, answer.summary)
        if decision.kind == "reject":
            return Outcome("gave_up", patch, decision.why)


_ENDS = {
    "malformed": "I could not answer: my last replies were malformed.",
    "repeated": "I stop here, because I repeated the same call without another result.",
    "out_of_rounds": "I stop here, because this turn has used up its model calls.",
}


async def chat(agent: Agent, session: Session, scope: Session) -> Outcome:
    """Talk about the task until a person ends the chat. Submit the change that was made by then.

    If the task has no text, the first message starts the chat. `scope` is for the conversation.

    Raises:
        Waiting: no message came for a while; the next one resumes the attempt.
    """
    task = agent.crew.task.statement
    talk = conversation(agent, {"task": task}, Spoken, scope, Person(scope, is_chat=True))
    speech = ""
    is_open = bool(task.strip())
    while True:
        if is_open:
            try:
                exchange = await talk.until_answer()
            except Dismissed as error:  # in answer to a question of the agent
                return Outcome("submitted", await session.diff(), str(error))
            end = exchange.end
            if end == "context_full":
                return Outcome(
                    get_end_status(end), await session.diff(), "the context window is full"
                )
            answer = exchange.answer
            speech = answer.text if answer else _ENDS.get(end, f"I stop here: {end}.")
        messages = await talk.hear(speech)
        if any(message.kind == "end" for message in messages):
            return Outcome("submitted", await session.diff(), speech)
        is_open = True


class LoopPlan(Answer):
    """The plan, for a person who decides about it."""

    cause: str = Field(description="what is wrong, and where")
    steps: list[str] = Field(min_length=1, description="what to change, file by file")
    check: str = Field(description="how to see that it is right")


async def approve_plan(agent: Agent, session: Session) -> Outcome | dict[str, Any]:
    """Return the facts about a plan that a person approved, or the end of the attempt without one.

    Raises:
        Dismissed: a person ended the attempt.
        Waiting: a decision is missing; the next message resumes the attempt.
    """
    planner = replace(
        agent,
        capabilities=load(("look", "symbols")),
        prompt=prompt_beside(__file__, "plan"),
        writes=False,
    )
    facts = {"task": agent.crew.task.statement}
    talk = conversation(planner, facts, LoopPlan, session, Person(session))
    while True:
        exchange = await talk.until_answer()
        plan = exchange.answer
        if plan is None:
            return Outcome(get_end_status(exchange.end), "", f"no plan: {exchange.end}")
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(plan.steps, 1))
        decision = await talk.wait_for_decision(f"{plan.cause}\n\n{steps}\n\nCheck: {plan.check}")
        if decision.kind == "approve":
            return {"plan": plan.model_dump(), "approved_with": decision.text}
        if decision.kind == "reject":
            return Outcome("gave_up", "", decision.why)
