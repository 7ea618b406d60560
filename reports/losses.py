"""What did not become a resolved cell: failures by class, and money by what it went into."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

FailureClass = Literal[
    "fail_to_pass",
    "pass_to_pass",
    "both",
    "untold",
    "no_patch",
    "patch_failed",
    "timeout",
    "ungraded",
    "stopped",
    "infrastructure",
    "missing",
]

FAILURES: Mapping[FailureClass, str] = {
    "fail_to_pass": "FAIL_TO_PASS tests still fail",
    "pass_to_pass": "PASS_TO_PASS tests broken",
    "both": "both: still failing and broken",
    "untold": "not resolved, tests not recorded",
    "no_patch": "no patch",
    "patch_failed": "patch does not apply",
    "timeout": "tests timed out",
    "ungraded": "not graded",
    "stopped": "stopped before the end",
    "infrastructure": "infrastructure",
    "missing": "never run",
}
"""Every reason for which a planned cell is not resolved, and its name for a reader."""

ENDINGS: Mapping[str | None, str] = {
    "submitted": "submitted a patch",
    "gave_up": "gave up",
    "out_of_steps": "out of steps",
    "out_of_time": "out of time",
    "out_of_budget": "out of its own budget",
    "budget_stop": "stopped by a budget",
    "interrupted": "interrupted",
    "infrastructure": "infrastructure",
    None: "never run",
}
"""Every way in which an attempt ends by its own account (`attempts.outcome`)."""

PHASES: Mapping[str | None, str] = {
    "not_reproduced": "not reproduced",
    "blocked": "reproduced, then blocked",
    "out_of_turns": "reproduced, then out of turns",
    "unverified": "ended unverified",
    "rejected": "rejected by its own review",
    "accepted_unreproduced": "accepted, never reproduced",
    "accepted": "accepted by its own review",
}
"""How far an arm with phases came, by its own statements."""

Purpose = Literal["resolved", "unresolved", "no_verdict", "superseded", "lost", "unpriced"]

PURPOSES: Mapping[Purpose, str] = {
    "resolved": "resolved cells",
    "unresolved": "cells not resolved",
    "no_verdict": "cells without a verdict",
    "superseded": "superseded attempts",
    "lost": "lost calls",
    "unpriced": "calls of unknown price",
}
"""What money went into; the parts add up to what was spent."""


@dataclass(frozen=True)
class FailureCount:
    """Cells of one arm that failed in the same way."""

    arm: str
    kind: FailureClass
    ended: str | None
    """`attempts.outcome` of the attempt that counts; None where nothing ran."""
    phase: str | None
    """How far the attempt came by its own statements; None for arms without phases."""
    cells: int


@dataclass(frozen=True)
class Example:
    """One cell that failed so."""

    kind: FailureClass
    arm: str
    instance_id: str
    repeat: int
    attempt_id: str


@dataclass(frozen=True)
class Failures:
    """Why planned cells are not resolved."""

    counts: tuple[FailureCount, ...]
    examples: tuple[Example, ...]
    """A few of each class."""


@dataclass(frozen=True)
class Spending:
    """What one arm was billed over all its attempts at planned cells, in USD."""

    arm: str
    attempts: int
    unbilled_attempts: int
    """Those of which nobody says what was billed: `billed_usd` is then a lower bound."""
    unknown_attempts: int
    """Those of which not even a cost is known: `spent_usd` is then a lower bound."""
    billed_usd: float | None
    """Everything ever sent; None when nothing is known."""
    credited_usd: float | None
    """What the attempts that count cost, calls that a fork took over included."""
    spent_usd: float | None
    """What was billed, and the cost of attempts of which nobody says it."""
    parts: Mapping[Purpose, float]
    """They add up to `spent_usd`."""

    def share(self, purpose: Purpose) -> float | None:
        """Part of what was spent; None where nothing was, or nobody knows."""
        return self.parts[purpose] / self.spent_usd if self.spent_usd else None
