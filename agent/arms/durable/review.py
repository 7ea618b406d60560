"""Phase 7: reviews of a step and of the whole change, based on test results."""

from typing import Any

from agent.arms.durable.answers import NextStep, Review
from agent.arms.durable.gates import Judgement
from agent.arms.durable.implementation import SHOWN_DIFF
from agent.arms.durable.profile import Role
from agent.arms.durable.state import Candidate, Evidence, State, Verification
from agent.conversation.conversation import converse, prompt_beside
from agent.session.session import Session
from agent.tools import TestRun
from agent.tools.rendering import head_and_tail, render_tests

_SHOWN_OUTPUT = 6_000


async def review_step(
    state: State, step: NextStep, candidate: Candidate, session: Session
) -> Review:
    """Return the review of a finished candidate."""
    assert candidate.verification is not None
    facts = {
        **state.as_facts("task", "contract", "anchor", "backlog"),
        "step": step.model_dump(),
        "diff": head_and_tail(candidate.diff, SHOWN_DIFF),
    }
    return await _review(
        "step_reviewer", "review_step", facts, candidate.verification, state, session
    )


async def review_whole(state: State, patch: str, found: Verification, session: Session) -> Review:
    """Return the review of the whole change."""
    facts = {
        **state.as_facts("task", "contract", "acceptance_criteria", "completed_steps"),
        "diff": head_and_tail(patch, SHOWN_DIFF),
    }
    return await _review("final_reviewer", "review_final", facts, found, state, session)


async def review_change(state: Evidence, judged: Judgement, session: Session) -> Review | None:
    """Return the review of a change whose tests pass, or None without a valid answer."""
    facts = {
        "task": state.task.statement,
        "diff": head_and_tail(judged.change.patch, SHOWN_DIFF),
        "new_test": state.new_test,
        "tests": [_shown(run) for run in (judged.runs.anchor, judged.runs.after) if run],
    }
    prompt = prompt_beside(__file__, "review_final")
    return (await converse(session, "final_reviewer", prompt, facts, Review, state.limits())).answer


async def _review(
    role: Role,
    prompt: str,
    facts: dict[str, Any],
    found: Verification,
    state: State,
    session: Session,
) -> Review:
    """Return the review of a change.

    Broken tests mean `revise` without a model call. A missing answer means `revise`, too.
    """
    if found.broken:
        return Review(reasons=["the tests were run"], issues=list(found.broken), verdict="revise")
    shown = {**facts, "verification": [_shown(run) for run in found.runs]}
    exchange = await converse(
        session, role, prompt_beside(__file__, prompt), shown, Review, state.limits()
    )
    return exchange.answer or Review(
        reasons=["the reviewer gave no valid answer"], issues=[], verdict="revise"
    )


def _shown(run: TestRun) -> dict[str, Any]:
    return {
        "command": run.command,
        "exit_code": run.exit_code,
        "passed": len(run.passed),
        "failed": run.failed,
        "errors": run.errors,
        "output": render_tests(run, _SHOWN_OUTPUT),
    }
