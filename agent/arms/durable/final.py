"""Phase 8 of the full preset: the cleaned patch alone, on a fresh copy of the repository."""

from agent.arms.durable.review import review_whole
from agent.arms.durable.roles import protecting
from agent.arms.durable.state import FinalResult, State, Verification
from agent.arms.durable.submission import change_of
from agent.arms.durable.verification import verify
from agent.checks import apply_patch
from agent.errors import OutOfTime
from agent.session.session import BASE, Session


async def verify_whole(state: State, session: Session) -> FinalResult:
    """Run all relevant tests with only the patch applied. Return the result and its review."""
    patch = (await change_of(session, state.written)).patch
    try:
        async with session.branch("fresh", BASE, limit_s=state.profile.phase_limit_s) as fresh:
            found = await _verified(state, patch, fresh)
    except OutOfTime as error:
        # Raises again if the time of the whole attempt is over.
        await session.scope("late").take(session.tree)
        found = Verification((), (str(error),))
    review = await review_whole(state, patch, found, session.scope("review"))
    return FinalResult(patch, found, review)


async def _verified(state: State, patch: str, fresh: Session) -> Verification:
    """Apply the patch to a fresh copy and run the tests. An empty patch fails."""
    if not patch:
        return Verification((), ("nothing was changed",))
    new_tests = protecting(state.reproduction.anchor).allowed
    problem = await apply_patch(fresh, patch, new_tests)
    if problem:
        return Verification((), (f"the patch does not apply to the base commit: {problem}",))
    return await verify(state, fresh, named=state.tests_of_steps, anchor_decides=True)
