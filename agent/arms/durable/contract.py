"""Phase 1: what has to be done, as far as the task's text says it."""

from agent.arms.durable.answers import Contract
from agent.arms.durable.conversation import Limits, converse, prompt_beside
from agent.session.session import Session
from agent.types import Task


async def write_contract(task: Task, limits: Limits, session: Session) -> Contract:
    """The contract of the task; where no valid one can be had, the task's text alone stands."""
    facts, prompt = {"task": task.statement}, prompt_beside(__file__)
    exchange = await converse(session, "contract", prompt, facts, Contract, limits)
    return exchange.answer or Contract(
        kind="unknown",
        goal=task.statement.strip().partition("\n")[0],
        acceptance_criteria=[],
        open_questions=["no contract could be had; only the text of the task says what to do"],
    )
