"""The lean preset's control flow.

One conversation reads, reproduces, edits and tests, as mini-swe-agent's does. Then the gates decide
on a fresh copy of the repository. A closed gate is repaired in the same conversation. If it stays
closed, an adjudicator rules on the cause, and a scout looks for another approach. The best change
is submitted in any case.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial

from agent.arms.durable.adjudication import adjudicate, applied
from agent.arms.durable.answers import Ruling, Scouting, Work
from agent.arms.durable.gates import GateFinding, Judgement, best, judge, prepare_judge
from agent.arms.durable.profile import LeanProfile
from agent.arms.durable.review import review_change
from agent.arms.durable.scouting import scout
from agent.arms.durable.solving import Solver, incomplete
from agent.arms.durable.state import Evidence
from agent.arms.durable.submission import SubmittedChange, change_of
from agent.conversation.exchanges import Exchange
from agent.conversation.limits import LimitReached
from agent.errors import OutOfTime
from agent.session.session import BASE, Session

WORKING_SHARE = 0.95
"""Share of the attempt's time for the work; the rest is for rescuing an unfinished change."""


@dataclass
class LeanState(Evidence):
    """All findings of an attempt of the lean preset."""

    profile: LeanProfile
    judged: list[Judgement] = field(default_factory=list)
    rulings: list[Ruling] = field(default_factory=list)
    plans: list[Scouting] = field(default_factory=list)
    is_reviewed: bool = False
    written: Callable[[], Collection[str]] = field(default=frozenset)
    """The files that the latest solver has written so far."""
    not_approved: int = 0
    """Number of changes at the beginning of `judged` that a person wants otherwise."""

    @property
    def chosen(self) -> Judgement | None:
        """The best change that a person may approve."""
        return best(self.judged[self.not_approved :])


async def work(
    state: LeanState, session: Session, limit_s: float | None, plan: Scouting | None = None
) -> None:
    """Work on the task until a change is accepted, or both approaches, limits or time are used up.

    The first approach follows the `plan`, if there is one.
    """
    limit_s = limit_s and limit_s * WORKING_SHARE
    try:
        await _work(state, session.scope("work", limit_s=limit_s), plan)
    except (OutOfTime, LimitReached) as error:
        state.ended = error
        await _rescue(state, session.scope("rescue"))


async def revise(state: LeanState, session: Session) -> None:
    """Let another conversation change the best change into what people want.

    If it makes no change, the one before stays the best.
    """
    chosen, before = state.chosen, state.not_approved
    state.not_approved, state.ended = len(state.judged), None
    try:
        await session.scope("restart").take(chosen.tree if chosen else BASE)
        await _approach(state, None, session.scope("approach"))
    except (OutOfTime, LimitReached) as error:
        state.ended = error
        await _rescue(state, session.scope("rescue"))
    if state.chosen is None:
        state.not_approved = before


async def _work(state: LeanState, session: Session, plan: Scouting | None) -> None:
    """Try one approach, and another one if it is not accepted."""
    await _approach(state, plan, session.scope("approach-0"))
    earlier = best(state.judged)
    if not state.profile.approaches or (earlier is not None and earlier.accepted):
        return
    plan = await scout(state, state.judged, session.scope("scout-1"))
    state.plans += [plan] if plan else []
    await _restart(earlier, session.scope("restart-1"))
    await _approach(state, plan, session.scope("approach-1"))


async def _restart(earlier: Judgement | None, session: Session) -> None:
    """Begin at the base commit, or with the best change if only its completion is missing."""
    await session.take(earlier.tree if earlier is not None and not earlier.findings else BASE)


async def _approach(state: LeanState, plan: Scouting | None, session: Session) -> None:
    """Let one conversation work and repair until its change is accepted or repairs are used up."""
    solver = Solver(state, plan, state.profile.rounds, session.scope("solve"))
    state.written = solver.written
    for turn in range(1 + state.profile.repairs):
        judging = session.scope(f"judge-{turn}")
        exchange = await solver.work(on_edit=partial(prepare_judge, state, judging))
        judged = await _judged(state, exchange, judging)
        if judged.accepted:
            judged = await _reviewed(state, judged, session.scope(f"review-{turn}"))
        state.judged.append(judged)
        if judged.accepted or exchange.answer is None or exchange.answer.status == "blocked":
            return
        solver.tell(judged)


async def _judged(state: LeanState, exchange: Exchange[Work], session: Session) -> Judgement:
    """Run the checks of the work so far. Ask for a ruling if a test gate stays closed.

    The first time that code has no test, one is asked for. After that, the author's reason counts.
    """
    work = exchange.answer
    tests_count = work is not None and not work.test
    change = await change_of(session, state.written(), tests_count=tests_count)
    judged = await judge(
        state,
        change,
        work,
        incomplete(exchange),
        session,
        insists_on_test=not state.judged and state.profile.repairs > 0,
    )
    if not _needs_a_ruling(state, judged):
        return judged
    ruling = await adjudicate(state, judged, session.scope("ruling"))
    if ruling is None:
        return judged
    state.rulings.append(ruling)
    insists = work is not None and bool(work.conflicting_tests) and _is_unchanged(state, change)
    return applied(state, ruling, judged, judged.failing if insists else ())


def _needs_a_ruling(state: LeanState, judged: Judgement) -> bool:
    """Return True if the same test gate rejects twice in a row."""
    earlier = state.judged[-1].gates if state.judged else frozenset()
    again = judged.gates & earlier & {"new_test", "regression"}
    return state.profile.adjudication and bool(again)


def _is_unchanged(state: LeanState, change: SubmittedChange) -> bool:
    """Return True if the change is the one that was rejected last."""
    return bool(state.judged) and state.judged[-1].change.patch == change.patch


async def _reviewed(state: LeanState, judged: Judgement, session: Session) -> Judgement:
    """Return the judgement with the objections of the review, of which an attempt has one."""
    if state.is_reviewed or state.profile.review == "never":
        return judged
    state.is_reviewed = True
    review = await review_change(state, judged, session)
    issues = tuple(review.issues) if review and review.verdict == "revise" else ()
    return replace(judged, findings=(GateFinding("review", issues),)) if issues else judged


async def _rescue(state: LeanState, session: Session) -> None:
    """Keep the change of work that was cut off, although no test has judged it."""
    try:
        change = await change_of(session, state.written())
    except OutOfTime:
        return
    why = f"cut off before its tests: {state.ended}"
    if not any(each.change.patch == change.patch for each in state.judged):
        findings = (GateFinding("unverified", (why,)),)
        state.judged.append(
            Judgement(session.tree, change, "", "low", incomplete=why, findings=findings)
        )
