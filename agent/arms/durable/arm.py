"""The durable arm's whole control flow.

First contract, index and reproduction. Then the steps, one after the other, each made by as many
candidates as confidence requires and judged by test results. Then the patch alone, on a fresh copy
of the repository. Evidence opens every gate, never the model's word.
"""

from agent.arms.durable import debugging
from agent.arms.durable.answers import Review
from agent.arms.durable.candidates import best_of
from agent.arms.durable.context import gather, read_again
from agent.arms.durable.contract import write_contract
from agent.arms.durable.conversation import Limits
from agent.arms.durable.handing_in import verify_whole
from agent.arms.durable.indexing import look_around
from agent.arms.durable.outcome import WorkflowStatus, outcome
from agent.arms.durable.planning import folded, is_done, plan
from agent.arms.durable.profile import Profile
from agent.arms.durable.reproduction import REPRODUCIBLE, reproduce
from agent.arms.durable.state import (
    Reproduction,
    State,
    StepResult,
    Verification,
)
from agent.arms.options import DurableOptions
from agent.errors import OutOfTime
from agent.runners import runner_of
from agent.session.session import BASE, Session
from agent.tools import ToolSettings
from agent.types import Outcome, Task


async def solve(task: Task, session: Session, options: DurableOptions) -> Outcome:
    """Solve a task with evidence at every gate.

    Raises:
        BudgetExhausted: the next call could cost more than is left; a later run resumes.
        InfrastructureError: a model or a workspace failed.
    """
    try:
        state = await _begun(task, session, options.profile)
    except OutOfTime as error:
        return Outcome("out_of_time", "", str(error))
    try:
        status, why = await _carried_out(state, session), ""
    except OutOfTime as error:
        status, why = "out_of_time", str(error)
    return outcome(state, status, session.steps, why)


async def _begun(task: Task, session: Session, profile: Profile) -> State:
    """Return the state before any work: the contract and the repository index."""
    contract = await write_contract(task, Limits(profile.context_tokens), session.scope("contract"))
    repository = await look_around(task, profile.map_tokens, session.scope("index"))
    tools = ToolSettings(
        runner=runner_of(profile.test_command) if profile.test_command else task.runner,
        command_timeout_s=profile.command_timeout_s,
        test_timeout_s=profile.test_timeout_s,
    )
    return State(task, profile, contract, repository, tools)


async def _carried_out(state: State, session: Session) -> WorkflowStatus:
    """Reproduce the task, then work on it until the whole change is submitted."""
    state.reproduction = await _reproduction(state, session)
    if _must_be_reproduced(state) and state.reproduction.anchor is None:
        return "blocked"
    if state.reproduction.brief is not None:
        state.backlog = list(state.reproduction.brief.backlog)
    return await _work(state, session)


async def _work(state: State, session: Session) -> WorkflowStatus:
    """Plan and make steps until the whole is accepted, or turns or final reviews are used up."""
    for number in range(1, state.profile.plan_turns + 1):
        turn = await plan(state, session.scope(f"plan-{number}"))
        if turn is None:
            continue
        folded(state, turn)
        if turn.context_needed:
            scope = session.scope(f"gather-{number}")
            state.context = await gather(state, turn.context_needed, scope)
        if is_done(state, turn):
            if await _handed_in(state, session.scope(f"final-{number}")):
                return "completed"
        elif turn.next_step is not None:
            step = await best_of(state, turn.next_step, session.scope(f"step-{number}"))
            _learn(state, step)
            state.context = await read_again(state, session.scope(f"read-again-{number}"))
    await _handed_in(state, session.scope("final"))
    return "out_of_turns"


async def _handed_in(state: State, session: Session) -> bool:
    """Verify and review the whole change. Return True if the attempt ends with it.

    The issues of the review become the new backlog.
    """
    final = await verify_whole(state, session)
    state.finals.append(final)
    state.backlog = _tasks(final.review)
    _remember(state, final.verification)
    accepted = final.review.verdict == "accept"
    return accepted or len(state.finals) == state.profile.final_rounds


def _learn(state: State, result: StepResult) -> None:
    """Record a step, and put its review issues at the top of the backlog."""
    state.steps.append(result)
    review, verification = result.chosen.review, result.chosen.verification
    if review is not None and review.verdict == "revise":
        state.backlog = [*_tasks(review), *state.backlog]
    if verification is not None:
        _remember(state, verification)


def _remember(state: State, found: Verification) -> None:
    """Record failures, so that a recurring error is recognised."""
    error = (found.error or "\n".join(found.broken)) if found.broken else ""
    state.errors = debugging.remembered(state.errors, error)


def _tasks(review: Review) -> list[str]:
    if review.verdict == "accept":
        return []
    return review.issues or review.reasons


async def _reproduction(state: State, session: Session) -> Reproduction:
    """Return the task as a failing test, or the reason why there is none.

    Without such a test, the arm continues in degraded mode.
    """
    try:
        scope = session.scope("reproduction", limit_s=state.profile.phase_limit_s)
        return await reproduce(state, scope)
    except OutOfTime as error:
        await session.scope("reproduction-undone").take(BASE)
        return Reproduction(problem=str(error))


def _must_be_reproduced(state: State) -> bool:
    return state.profile.reproduction == "required" and state.contract.kind in REPRODUCIBLE
