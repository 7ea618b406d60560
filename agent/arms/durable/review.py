"""Reviews of a step and of the whole change, rulings on a closed gate, and other approaches."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from agent.arms.durable.answers import NextStep, Review, Ruling, Scouting
from agent.arms.durable.gates import Judgement, add_findings
from agent.arms.durable.options import Role
from agent.arms.durable.roles import conversation
from agent.arms.durable.state import (
    SHOWN_DIFF,
    SHOWN_TEST_FILES,
    Candidate,
    Evidence,
    State,
    Verification,
)
from agent.conversation.conversation import Conversation, prompt_beside
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
        "tests": [_format_run(run) for run in (judged.runs.anchor, judged.runs.after) if run],
    }
    prompt = prompt_beside(__file__, "review_final")
    return (
        await Conversation(
            session, "final_reviewer", prompt, facts, Review, state.limits()
        ).until_answer()
    ).answer


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
    shown = {**facts, "verification": [_format_run(run) for run in found.runs]}
    exchange = await Conversation(
        session, role, prompt_beside(__file__, prompt), shown, Review, state.limits()
    ).until_answer()
    return exchange.answer or Review(
        reasons=["the reviewer gave no valid answer"], issues=[], verdict="revise"
    )


def _format_run(run: TestRun) -> dict[str, Any]:
    return {
        "command": run.command,
        "exit_code": run.exit_code,
        "passed": len(run.passed),
        "failed": run.failed,
        "errors": run.errors,
        "output": render_tests(run, _SHOWN_OUTPUT),
    }


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
    prompt = prompt_beside(__file__, "adjudication")
    exchange = await Conversation(
        session, "adjudicator", prompt, facts, Ruling, state.limits()
    ).until_answer()
    return exchange.answer


def apply_ruling(
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
    return add_findings(state, judged)


_SCOUT_ROUNDS = 20


async def scout(
    state: Evidence,
    judged: Sequence[Judgement],
    session: Session,
    not_approved: Scouting | None = None,
) -> Scouting | None:
    """Return a plan that differs from what was tried, or None without a valid answer.

    `not_approved` is the last plan, if a person wants another one.
    """
    facts = {
        "task": state.task.statement,
        "root": session.workspaces.root,
        "test_files": state.repository.test_files[:SHOWN_TEST_FILES],
        "earlier": _earlier(judged[-1]) if judged else None,
        **({"not_approved": not_approved.model_dump()} if not_approved else {}),
        **state.said,
    }
    prompt, limits = prompt_beside(__file__, "scouting"), state.limits(_SCOUT_ROUNDS)
    talk = conversation("scout", state, session, prompt, facts, Scouting, limits)
    return (await talk.until_answer()).answer


def _earlier(judged: Judgement) -> dict[str, Any]:
    return {
        "summary": judged.summary,
        "unfinished": judged.incomplete,
        "failed_checks": [line for finding in judged.findings for line in finding.lines[:10]],
        "output": "\n".join(finding.evidence for finding in judged.findings),
        "diff": head_and_tail(judged.change.patch, SHOWN_DIFF),
    }
