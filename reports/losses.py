"""Types of losses: failures by class, and money by purpose."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

FailureClass = Literal[
    "fail_to_pass",
    "pass_to_pass",
    "both",
    "untold",
    "no_patch",
    "starved",
    "empty",
    "patch_failed",
    "timeout",
    "ungraded",
    "stopped",
    "throttled",
    "infrastructure",
    "missing",
]

FAILURES: Mapping[FailureClass, str] = {
    "fail_to_pass": "FAIL_TO_PASS tests still fail",
    "pass_to_pass": "PASS_TO_PASS tests broken",
    "both": "both: still failing and broken",
    "untold": "not resolved, tests not recorded",
    "no_patch": "no patch",
    "starved": "no patch, answers cut at the output limit",
    "empty": "the model's answers were empty",
    "patch_failed": "patch does not apply",
    "timeout": "tests timed out",
    "ungraded": "not graded",
    "stopped": "stopped before the end",
    "throttled": "refused by the provider's rate limit",
    "infrastructure": "infrastructure",
    "missing": "never run",
}
"""Every reason for a planned cell not to be resolved, with its display name."""

ENDINGS: Mapping[str | None, str] = {
    "submitted": "submitted a patch",
    "gave_up": "gave up",
    "out_of_steps": "out of steps",
    "out_of_time": "out of time",
    "out_of_budget": "out of its own budget",
    "budget_stop": "stopped by a budget",
    "interrupted": "interrupted",
    "waiting": "waits for a person",
    "infrastructure": "infrastructure",
    "refused": "its image failed the preflight",
    "unknown": "not stated",
    None: "never run",
}
"""Every way in which an attempt itself reports its end (`attempts.outcome`)."""

PHASES: Mapping[str | None, str] = {
    "not_reproduced": "not reproduced",
    "blocked": "reproduced, then blocked",
    "out_of_turns": "reproduced, then out of turns",
    "out_of_limits": "reproduced, then out of calls or money",
    "unverified": "ended unverified",
    "rejected": "rejected by its own checks",
    "accepted_unreproduced": "accepted, never reproduced",
    "accepted": "accepted by its own checks",
}
"""Progress of an arm with phases, as the arm itself reports it."""

Purpose = Literal["resolved", "unresolved", "no_verdict", "superseded", "lost", "unpriced"]

PURPOSES: Mapping[Purpose, str] = {
    "resolved": "resolved cells",
    "unresolved": "cells not resolved",
    "no_verdict": "cells without a verdict",
    "superseded": "superseded attempts",
    "lost": "lost calls",
    "unpriced": "calls of unknown price",
}
"""Purposes of spending. The parts add up to the total spent."""


@dataclass(frozen=True)
class FailureCount:
    """Cells of one arm that failed in the same way."""

    arm: str
    kind: FailureClass
    ended: str | None
    """`attempts.outcome` of the attempt that counts, or None if nothing ran."""
    phase: str | None
    """Progress that the attempt itself reports. None for arms without phases."""
    cells: int


@dataclass(frozen=True)
class Example:
    """One cell that failed in a given way."""

    kind: FailureClass
    arm: str
    instance_id: str
    repeat: int
    attempt_id: str


@dataclass(frozen=True)
class Failures:
    """Reasons for planned cells not to be resolved."""

    counts: tuple[FailureCount, ...]
    examples: tuple[Example, ...]
    """A few examples of each class."""

    def of(self, arms: Collection[str]) -> "Failures":
        """Return the failures of these arms."""
        return Failures(
            tuple(one for one in self.counts if one.arm in arms),
            tuple(one for one in self.examples if one.arm in arms),
        )


@dataclass(frozen=True)
class Spending:
    """Costs of one arm over all its attempts at planned cells, in USD."""

    arm: str
    attempts: int
    unbilled_attempts: int
    """Attempts with an unknown bill. If there are any, `billed_usd` is a lower bound."""
    unknown_attempts: int
    """Attempts without a bill and a fully known cost. If any, `spent_usd` is a lower bound."""
    billed_usd: float | None
    """Bill for everything ever sent. None if nothing is known."""
    credited_usd: float | None
    """Cost of the attempts that count, including the calls that a fork reused."""
    incomplete_cells: int
    """Those without a fully known cost. If there are any, `credited_usd` is a lower bound."""
    spent_usd: float | None
    """The bills, plus the cost of attempts with an unknown bill."""
    parts: Mapping[Purpose, float]
    """USD by purpose. The parts add up to `spent_usd`."""
    unknown: Mapping[Purpose, int]
    """Attempts of which a part is not fully known. If there are any, it is a lower bound."""

    def share(self, purpose: Purpose) -> float | None:
        """Return a purpose's share of what is known of the spending; None if that is nothing."""
        return self.parts[purpose] / self.spent_usd if self.spent_usd else None
