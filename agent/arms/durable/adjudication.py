"""Adjudication: the cause of a check that rejects again and again."""

from collections.abc import Collection
from dataclasses import replace

from agent.arms.durable.answers import Ruling
from agent.arms.durable.gates import Judgement, found
from agent.arms.durable.implementation import SHOWN_DIFF
from agent.arms.durable.state import Evidence
from agent.conversation.conversation import converse, prompt_beside
from agent.session.session import Session
from agent.tools.rendering import head_and_tail


async def adjudicate(state: Evidence, judged: Judgement, session: Session) -> Ruling | None:
    """Ask for the cause of the findings. Return None without a valid answer."""
    facts = {
        "task": state.task.statement,
        "diff": head_and_tail(judged.change.patch, SHOWN_DIFF),
        "new_test": state.new_test,
        "checks": [
            {"failures": list(finding.lines), "output": finding.evidence}
            for finding in judged.findings
        ],
        "failing_existing_tests": list(judged.failing),
    }
    prompt = prompt_beside(__file__)
    exchange = await converse(session, "adjudicator", prompt, facts, Ruling, state.limits())
    return exchange.answer


def applied(
    state: Evidence, ruling: Ruling, judged: Judgement, may_be_excepted: Collection[str]
) -> Judgement:
    """Record a ruling in the state. Return the judgement that follows from it.

    `may_be_excepted` names the existing tests that a ruling may blame.
    """
    anchor = state.reproduction.anchor
    if ruling.cause == "new_test" and anchor is not None:
        state.withdrawn.append(anchor)
        problem = f"the new test was ruled wrong: {' '.join(ruling.reasons)}"
        state.reproduction = replace(state.reproduction, anchor=None, problem=problem)
    if ruling.cause == "existing_test":
        state.excepted += [test for test in may_be_excepted if test in ruling.tests]
    return found(state, judged)
