"""The input and the result of an attempt."""

from dataclasses import dataclass
from typing import Any, Literal

from agent.errors import AgentError, OutOfCalls, OutOfMoney, OutOfTime
from agent.runners import PYTEST, TestRunner

OutcomeStatus = Literal["submitted", "gave_up", "out_of_steps", "out_of_budget", "out_of_time"]
"""Ways in which an attempt ends by its own rules. Broken infrastructure is never one of these."""


@dataclass(frozen=True)
class Task:
    """One problem in one repository.

    Only the `gold` arm and the simulated model may read `reference_patch`. No prompt may be built
    from it.
    """

    id: str
    statement: str
    base_commit: str
    reference_patch: str
    reference_script: str = ""
    """A Bash script for `gold`, of a task without a reference patch."""
    runner: TestRunner = PYTEST
    """The test runner of the repository."""
    for_reviewers: bool = False
    """True if people review the change and no hidden test decides: tests are part of the change."""


@dataclass(frozen=True)
class Outcome:
    """The end of an attempt and its patch (a unified diff, `""` for none)."""

    status: OutcomeStatus
    patch: str
    detail: str = ""
    """The arm's own status, such as mini-swe-agent's exit status."""
    report: dict[str, Any] | None = None
    """The arm's own report as JSON: plan, evidence, usage by role."""


End = Literal["answered", "malformed", "repeated", "out_of_rounds", "context_full", "out_of_time"]


def get_end_status(cause: AgentError | End) -> OutcomeStatus:
    """Return the status of an attempt that a known end has cut off, with or without a change."""
    match cause:
        case OutOfCalls() | "out_of_rounds":
            return "out_of_steps"
        case OutOfMoney():
            return "out_of_budget"
        case OutOfTime() | "out_of_time":
            return "out_of_time"
        case _:
            return "gave_up"
