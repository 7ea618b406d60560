"""Selection of the best candidate."""

from dataclasses import replace
from itertools import pairwise

from agent.arms.durable.answers import Review
from agent.arms.durable.implementation import rank
from agent.arms.durable.state import Candidate, Verification
from agent.session.session import BASE
from agent.tools import TestRun

ACCEPTED = Review(reasons=["it is right"], verdict="accept")
REVISED = Review(reasons=["it is wrong"], verdict="revise")


def passing(count: int) -> Verification:
    run = TestRun("pytest", 0, [f"test_{n}" for n in range(count)], [], [], "")
    return Verification((run,), ())


BEST = Candidate(
    number=0,
    status="done",
    summary="",
    confidence="high",
    tree=BASE,
    diff="short",
    edited=(),
    written=(),
    tests_run=0,
    verification=passing(3),
    review=ACCEPTED,
)


def test_status_review_tests_confidence_and_size_decide_in_that_order() -> None:
    """Each candidate is worse than the one before in one criterion and better in all later ones."""
    longer = replace(BEST, diff="longer")
    unsure = replace(BEST, confidence="low", diff="")
    fewer = replace(BEST, verification=passing(2), diff="")
    revised = replace(BEST, review=REVISED, verification=passing(9), diff="")
    replan = replace(revised, status="replan", review=ACCEPTED)
    blocked = replace(replan, status="blocked")
    order = [BEST, longer, unsure, fewer, revised, replan, blocked]
    assert all(rank(better) < rank(worse) for better, worse in pairwise(order))
