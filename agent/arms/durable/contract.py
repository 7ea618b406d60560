"""Phase 1: the task's requirements according to its text."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agent.arms.durable.answers import Contract
from agent.conversation.conversation import converse, prompt_beside
from agent.conversation.exchanges import ConversationLimits
from agent.session.session import Session
from agent.types import Task


async def write_contract(
    task: Task,
    limits: ConversationLimits,
    session: Session,
    not_approved: Contract | None = None,
    said: Mapping[str, Any] = MappingProxyType({}),
) -> Contract:
    """Return the contract of the task.

    Without a valid answer, the contract contains only the task's text. `not_approved` is the last
    one, if a person wants another one, and `said` what they say.
    """
    earlier = {"not_approved": not_approved.model_dump()} if not_approved else {}
    facts, prompt = {"task": task.statement, **earlier, **said}, prompt_beside(__file__)
    exchange = await converse(session, "contract", prompt, facts, Contract, limits)
    return exchange.answer or Contract(
        kind="unknown",
        goal=task.statement.strip().partition("\n")[0],
        acceptance_criteria=[],
        open_questions=["no contract could be had; only the text of the task says what to do"],
    )
