"""Reviews of a step and of the whole change, rulings on a closed gate, and other approaches."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from agent.arms.durable.answers import NextStep, Review, Ruling, Scouting
from agent.arms.durable.gates import Judgement, add_findings
from agent.arms.durable.options import Role
from agent.arms.durable.roles import ask
from agent.arms.durable.state import (
    SHOWN_DIFF,
    SHOWN_TEST_FILES,
    Candidate,
    Evidence,
    State,
    Verification,
)
from agent.session.session import Session
from agent.shortening import head_and_tail
from agent.tools import TestRun
from agent.tools.rendering import render_tests

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
    verification = candidate.verification
    return await _review("step_reviewer", "review_step", facts, verification, state, session)


async def review_whole(
    state: State, patch: str, verification: Verification, session: Session
) -> Review:
    """Return the review of the whole change."""
    facts = {
        **state.as_facts("task", "contract", "acceptance_criteria", "completed_steps"),
        "diff": head_and_tail(patch, SHOWN_DIFF),
    }
    if state.answer:
        facts["answer"] = state.answer
    return await _review("final_reviewer", "review_final", facts, verification, state, session)


async def _review(
    role: Role,
    prompt: str,
    facts: dict[str, Any],
    verification: Verification,
    state: State,
    session: Session,
) -> Review:
    """Return the review of a change.

    Broken tests mean `revise` without a model call. So does a missing answer.
    """
    broken = list(verification.broken)
    if broken:
        return Review(reasons=["the tests were run"], issues=broken, verdict="revise")
    facts = {**facts, "verification": [_format_run(run) for run in verification.runs]}
    return await ask(role, state, session, prompt, facts, Review) or Review(
        reasons=["the reviewer gave no valid answer"], issues=[], verdict="revise"
    )


async def review_change(state: Evidence, judged: Judgement, session: Session) -> Review | None:
    """Return the review of a change whose tests pass, or None without a valid answer."""
    facts = {
        "task": state.task.statement,
        "diff": head_and_tail(judged.change.patch, SHOWN_DIFF),
        "new_test": state.new_test,
        "tests": [_format_run(run) for run in (judged.runs.anchor, judged.runs.after) if run],
    }
    return await ask("final_reviewer", state, session, "review_final", facts, Review)


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
    return await ask("adjudicator", state, session, "adjudication", facts, Ruling)


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
    """Return a plan that differs from earlier tries, or None without a valid answer.

    `not_approved` is the last plan, if a person wants another one.
    """
    earlier = None
    if judged:
        last = judged[-1]
        earlier = {
            "summary": last.summary,
            "unfinished": last.incomplete,
            "failed_checks": [line for finding in last.findings for line in finding.lines[:10]],
            "output": "\n".join(finding.evidence for finding in last.findings),
            "diff": head_and_tail(last.change.patch, SHOWN_DIFF),
        }
    facts = {
        "task": state.task.statement,
        "root": session.workspaces.root,
        "test_files": state.repository.test_files[:SHOWN_TEST_FILES],
        "earlier": earlier,
        **({"not_approved": not_approved.model_dump()} if not_approved else {}),
        **state.said,
    }
    limits = state.limits(_SCOUT_ROUNDS)
    return await ask("scout", state, session, "scouting", facts, Scouting, limits)
