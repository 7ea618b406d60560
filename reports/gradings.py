"""Types of how wrong the grader may be."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Flip:
    """A cell whose verdict differs between gradings of its patch."""

    arm: str
    instance_id: str
    repeat: int


@dataclass(frozen=True)
class Gradings:
    """How many wrong verdicts turn the leading comparison, and how often gradings disagree."""

    verdicts: int
    """Verdicts of both arms of the leading comparison; 0 without a comparison."""
    to_turn_test: int | None
    """Wrong verdicts that make its test insignificant, or significant if it is not. None if no
    number does."""
    to_turn_sign: int
    """Wrong verdicts with which the arm that resolves fewer would resolve more."""
    is_fewest: bool
    """True if `to_turn_test` is the smallest number; else that many are enough."""
    random_errors: float | None
    """Rate of random errors in both arms with which a significant test is so no longer; else None.
    A share of verdicts."""
    graded_again: int
    """Cells of all arms whose patch was graded more than once."""
    flaky: int
    """Those of them with a test or a verdict that differs."""
    flips: tuple[Flip, ...]
    """Those of them with another verdict, in declared order."""
