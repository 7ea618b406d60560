"""The two ends of an attempt: what an arm is given and what it leaves."""

from dataclasses import dataclass
from typing import Any, Literal

OutcomeStatus = Literal["submitted", "gave_up", "out_of_steps", "out_of_budget", "out_of_time"]
"""How an attempt ended by its own rules. Broken infrastructure is never one of these."""


@dataclass(frozen=True)
class Task:
    """One problem in one repository.

    `reference_patch` is for the `gold` arm and the simulated model alone; no prompt may
    be built from it.
    """

    id: str
    statement: str
    base_commit: str
    reference_patch: str


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended, and the patch it leaves (a unified diff, `""` for none)."""

    status: OutcomeStatus
    patch: str
    detail: str = ""
    """The arm's own word for the ending, such as mini-swe-agent's exit status."""
    report: dict[str, Any] | None = None
    """What the arm has to say of itself, as JSON: plan, evidence, usage by role."""
