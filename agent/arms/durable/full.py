"""The full preset's control flow: the complete design, of which `lean` keeps what pays for itself.

First contract and reproduction. Then the steps, one after the other, each made by as many
candidates as confidence requires and judged by test results. Then the patch alone, on a fresh copy
of the repository. Evidence opens every gate, never the model's word.
"""

import contextlib
from collections.abc import Awaitable, Collection
from dataclasses import replace

from agent.arms.durable.answers import PlanTurn, Review
from agent.arms.durable.gates import Judgement, add_findings
from agent.arms.durable.implementation import best_of, gather, read_again
from agent.arms.durable.outcome import WorkflowStatus, cut_off
from agent.arms.durable.reproduction import REPRODUCIBLE, reproduce
from agent.arms.durable.review import adjudicate, apply_ruling, review_step, review_whole
from agent.arms.durable.roles import ask, protecting
from agent.arms.durable.state import (
    SHOWN_DIFF,
    FinalResult,
    Reproduction,
    State,
    StepResult,
    Verification,
)
from agent.arms.durable.verification import (
    SubmittedChange,
    change_of,
    put_back_tests,
    reports_tests,
    verify,
)
from agent.checks import apply_patch, debugging
from agent.conversation.person import Person
from agent.errors import LimitReached, OutOfTime
from agent.session.session import BASE, Session
from agent.shortening import head_and_tail


async def work(state: State, session: Session) -> WorkflowStatus:
    """Work until the whole change is accepted, or turns, progress, limits or time end.

    Return the way in which it ended.
    """
    status = await _end(state, _reproduce_then_work(state, session))
    if not (state.finals and state.finals[-1].patch):
        await _rescue(state, session.scope("rescue"))
    return status


async def revise(state: State, session: Session) -> WorkflowStatus:
    """Plan and make further steps, as people want the change otherwise. Return as `work` does."""
    state.backlog = [message.text for message in state.heard[-1:]]
    return await _end(state, _work(state, session))


async def _end(state: State, work: Awaitable[WorkflowStatus]) -> WorkflowStatus:
    state.ended = None
    try:
        return await work
    except (OutOfTime, LimitReached) as error:
        state.ended = error
        return cut_off(error)


async def _rescue(state: State, session: Session) -> None:
    """Keep the best change that was rejected or never verified, unless it keeps tests from running.

    Nothing is kept if the time is over.
    """
    candidates = [
        candidate
        for result in state.steps
        for candidate in result.candidates
        if candidate.edited
        and (not candidate.verification or reports_tests(candidate.verification.compared))
    ]
    if not candidates:
        return
    chosen = min(candidates, key=lambda candidate: len(candidate.broken))
    with contextlib.suppress(OutOfTime):
        await session.take(chosen.tree)
        state.rescued = await _read_patch(state, chosen.written, session)


async def _read_patch(state: State, written: Collection[str], session: Session) -> str:
    """Return the change in the work tree, for reviewers with its tests."""
    anchor, is_for = state.reproduction.anchor, state.task.for_reviewers
    tests = [anchor.path] if anchor and is_for else []
    return (await change_of(session, {*written, *tests}, for_reviewers=is_for)).patch


async def _reproduce_then_work(state: State, session: Session) -> WorkflowStatus:
    """Work with a failing test of the task if there is one, else in degraded mode."""
    limit_s = state.profile.phase_limit_s
    try:
        scope = session.scope("reproduction", limit_s=limit_s)
        state.reproduction = await reproduce(state, scope)
    except OutOfTime as error:
        await session.scope("reproduction-undone").take(BASE)
        state.reproduction = Reproduction(problem=str(error))
    is_required = state.profile.reproduction == "required"
    if is_required and state.contract.kind in REPRODUCIBLE and state.reproduction.anchor is None:
        return "blocked"
    if state.reproduction.brief is not None:
        state.backlog = list(state.reproduction.brief.backlog)
    return await _work(state, session)


async def _work(state: State, session: Session) -> WorkflowStatus:
    """Plan and make steps until the whole is accepted, or turns or progress end."""
    idle = 0
    for number in range(1, state.profile.plan_turns + 1):
        state.meter.check()
        was_stuck = debugging.is_stuck(state.errors)
        turn = await plan(state, session.scope(f"plan-{number}"))
        is_progress = turn is not None and bool(turn.context_needed)
        if turn is not None:
            adopt(state, turn)
            if turn.context_needed:
                scope = session.scope(f"gather-{number}")
                state.context = await gather(state, turn.context_needed, scope) or state.context
            if is_done(state, turn):
                is_progress = True
                if await _submit(state, session.scope(f"final-{number}")):
                    return "completed"
            elif turn.next_step is not None:
                step = await best_of(state, turn.next_step, session.scope(f"step-{number}"))
                step = await _rule(state, step, session, number)
                is_progress = _record_step(state, step)
                state.context = await read_again(state, session.scope(f"read-again-{number}"))
        idle = 0 if is_progress else idle + 1
        is_newly_stuck = debugging.is_stuck(state.errors) and not was_stuck
        if idle >= state.profile.patience and not is_newly_stuck:
            break
    await _submit(state, session.scope("final"))
    return "out_of_turns"


async def _submit(state: State, session: Session) -> bool:
    """Verify and review the whole change. Return True if the attempt ends with it.

    The issues of the review become the new backlog.
    """
    final = await verify_whole(state, session)
    state.finals.append(final)
    state.backlog = _open_issues(final.review)
    _remember(state, final.verification)
    accepted = final.review.verdict == "accept"
    return accepted or len(state.finals) >= state.profile.final_rounds


async def _rule(state: State, result: StepResult, session: Session, number: int) -> StepResult:
    """Ask for the cause if tests reject two steps in a row. Return the step after the ruling.

    A step that only failed by a test that was ruled wrong is kept and reviewed.
    """
    chosen, last = result.chosen, state.last_step
    if not (state.profile.adjudication and chosen.broken and last and last.chosen.broken):
        return result
    verification = chosen.verification
    assert verification is not None
    judged = add_findings(
        state,
        Judgement(
            chosen.tree,
            SubmittedChange(chosen.diff, chosen.edited),
            chosen.summary,
            chosen.confidence,
            verification.compared,
        ),
    )
    ruling = await adjudicate(state, judged, session.scope(f"ruling-{number}"))
    if ruling is None or apply_ruling(state, ruling, judged, judged.failing).findings:
        return result
    await session.scope(f"keep-{number}").take(chosen.tree)
    sound = replace(chosen, verification=replace(verification, broken=()))
    review = await review_step(state, result.step, sound, session.scope(f"review-{number}"))
    return replace(result, chosen=replace(sound, review=review))


def _record_step(state: State, result: StepResult) -> bool:
    """Record a step, and put its review issues at the top of the backlog.

    Return True if the step was accepted.
    """
    state.steps.append(result)
    review, verification = result.chosen.review, result.chosen.verification
    if review is not None and review.verdict == "revise":
        state.backlog = [*_open_issues(review), *state.backlog]
    if verification is not None:
        _remember(state, verification)
    return result.chosen.accepted


def _remember(state: State, verification: Verification) -> None:
    """Record failures, so that a recurring error is recognised."""
    broken = verification.broken
    error = (verification.error or "\n".join(broken)) if broken else ""
    state.errors = debugging.recall_errors(state.errors, error)


def _open_issues(review: Review) -> list[str]:
    if review.verdict == "accept":
        return []
    return review.issues or review.reasons


async def verify_whole(state: State, session: Session) -> FinalResult:
    """Run all relevant tests with only the patch applied. Return the result and its review."""
    patch = await _read_patch(state, state.written, session)
    try:
        async with session.branch("fresh", BASE, limit_s=state.profile.phase_limit_s) as fresh:
            verification = await _verify_patch(state, patch, fresh)
    except OutOfTime as error:
        # Raises again if the time of the whole attempt is over.
        await session.scope("late").take(session.tree)
        verification = Verification((), (str(error),))
    review = await review_whole(state, patch, verification, session.scope("review"))
    return FinalResult(patch, verification, review)


async def _verify_patch(state: State, patch: str, fresh: Session) -> Verification:
    """Apply the patch to a fresh copy and run the tests. Only an answer may be empty."""
    if state.answer:
        return Verification((), ())
    if not patch:
        return Verification((), ("nothing was changed",))
    protection = protecting(state.reproduction.anchor)
    problem = await apply_patch(fresh, patch, protection.allowed)
    if problem:
        return Verification((), (f"the patch does not apply to the base commit: {problem}",))
    if state.task.for_reviewers:
        await put_back_tests(fresh, protection)
    return await verify(state, fresh, named=state.tests_of_steps, anchor_decides=True)


_PLANNER_ROUNDS = 8
_MOST_FACTS, _FACT_CHARS = 40, 500


async def plan(state: State, session: Session) -> PlanTurn | None:
    """Run one turn of the planner. Return None if it gave no valid answer."""
    facts = {
        **state.as_facts(
            "task",
            "contract",
            "brief",
            "anchor",
            "regression_tests",
            "backlog",
            "facts",
            "context",
            "completed_steps",
            "last_step",
            "earlier_errors",
        ),
        "diff": head_and_tail(await session.diff(), SHOWN_DIFF),
    }
    more = f"\n{debugging.ROOT_CAUSE}" if debugging.is_stuck(state.errors) else ""
    limits = state.limits(_PLANNER_ROUNDS, state.profile.plan_tool_uses)
    person = Person(session, heard=state.heard)
    return await ask(
        "planner", state, session, "planning", facts, PlanTurn, limits, more=more, person=person
    )


def adopt(state: State, turn: PlanTurn) -> None:
    """Add a turn's facts to the state, and adopt its backlog."""
    new = [" ".join(fact.split())[:_FACT_CHARS] for fact in turn.facts]
    state.facts = [fact for fact in dict.fromkeys([*state.facts, *new]) if fact][-_MOST_FACTS:]
    state.backlog = list(turn.backlog)


def is_done(state: State, turn: PlanTurn) -> bool:
    """Return True if nothing remains. The planner's word counts only if the facts agree."""
    return turn.done and not turn.backlog and not state.needs_replanning and not turn.next_step
