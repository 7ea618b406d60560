"""Phase 6: as many candidates for a step as confidence requires, and the best of them."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from agent.arms.durable.answers import NextStep
from agent.arms.durable.implementation import implement
from agent.arms.durable.review import review_step
from agent.arms.durable.state import Candidate, State, StepResult
from agent.arms.durable.verification import verify
from agent.checks import find_covering
from agent.errors import OutOfTime
from agent.session.session import Session

T = TypeVar("T")

_STATUS = {"done": 0, "replan": 1, "blocked": 2}
_CONFIDENCE = {"high": 0, "medium": 1, "low": 2}


async def best_of(state: State, step: NextStep, session: Session) -> StepResult:
    """Make the step once or several times from the same work tree, and apply the best candidate.

    The chosen candidate's changes are kept, even if it asked for replanning. They are discarded if
    tests found them broken, because no later step can build on them.
    """
    start = session.tree

    async def attempt(number: int) -> Candidate:
        async with session.branch(
            f"candidate-{number}", start, limit_s=state.profile.phase_limit_s
        ) as branch:
            return await _judged(state, step, number, branch)

    made = [await attempt(0)]
    wanted = _wanted(state, made[0])
    while len(made) < wanted and not _has_replaced(made):
        wave = range(len(made), min(wanted, len(made) + state.profile.parallel))
        made += await together(attempt(number) for number in wave)
    chosen = min(made, key=rank)
    if not chosen.broken:
        await session.take(chosen.tree)
    return StepResult(step, tuple(made), chosen)


async def _judged(state: State, step: NextStep, number: int, branch: Session) -> Candidate:
    """Make one candidate, and test and review it if it is done.

    If time runs out during tests or review, the candidate counts as blocked.
    """
    made = await implement(state, step, number, branch)
    if made.status != "done":
        return made
    try:
        return await _reviewed(state, step, made, branch)
    except OutOfTime as error:
        return replace(made, status="blocked", summary=str(error))


async def _reviewed(state: State, step: NextStep, made: Candidate, branch: Session) -> Candidate:
    """Test and review a candidate. Files that the tests leave behind are not part of it."""
    covering = await find_covering(
        made.edited, made.diff, branch.scope("covering"), among=state.repository.test_files
    )
    found = await verify(
        state,
        branch.scope("verification"),
        named=[*step.tests, *covering],
        anchor_decides=not state.backlog,
    )
    made = replace(made, verification=found)
    made = replace(made, review=await review_step(state, step, made, branch.scope("review")))
    if not (made.accepted and state.profile.snapshots):
        return made
    await branch.take(made.tree)
    await branch.snapshot()
    return replace(made, tree=branch.tree)


def _wanted(state: State, first: Candidate) -> int:
    """Return how many candidates to make, given the result of the first."""
    if first.status == "replan":
        return 1
    if not first.accepted:
        return state.profile.candidates["low"]
    return state.profile.candidates[first.confidence]


def _has_replaced(made: Sequence[Candidate]) -> bool:
    """Return True if the first candidate was not accepted and an alternative was."""
    return not made[0].accepted and any(each.accepted for each in made)


def rank(candidate: Candidate) -> tuple[int, int, int, int, int]:
    """Return the sort key; the lowest candidate is the best.

    The order is status, review, passing tests, confidence, smaller diff.
    """
    passed = candidate.verification.passed if candidate.verification else 0
    return (
        _STATUS[candidate.status],
        0 if candidate.accepted else 1,
        -passed,
        _CONFIDENCE[candidate.confidence],
        len(candidate.diff),
    )


async def together(work: Iterable[Awaitable[T]]) -> list[T]:
    """Run all work concurrently and return the results in order.

    An error is raised only when the others have ended by themselves, so that no paid work is cut
    off.
    """
    results: list[T] = []
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results
