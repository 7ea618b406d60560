"""Time limits on a line of work, counted over all runs of its attempt."""

import time
from collections.abc import Iterable
from datetime import timedelta

from agent.journal import RecordedStep


class Deadline:
    """The moment at which a line of work has to end. Create it when the work starts or resumes."""

    def __init__(self, what: str, limit_s: float, spent_s: float = 0.0) -> None:
        """Subtract `spent_s`, the time that earlier runs used, from the limit."""
        self.what = f"{what} has used its {limit_s:g} s"
        self._ends_at = time.monotonic() + limit_s - spent_s

    def spend(self, seconds: float) -> None:
        """Count time that another attempt spent on a step of this one."""
        self._ends_at -= seconds

    @property
    def left_s(self) -> float:
        """Remaining seconds; negative once the deadline has passed."""
        return self._ends_at - time.monotonic()


def covered_s(steps: Iterable[RecordedStep]) -> float:
    """Return the seconds during which at least one step was running. Overlaps count once."""
    spans = sorted(
        (step.started_at, step.started_at + timedelta(seconds=step.duration_s or 0.0))
        for step in steps
    )
    total, reached = 0.0, None
    for start, end in spans:
        begin = start if reached is None or start > reached else reached
        if end > begin:
            total += (end - begin).total_seconds()
            reached = end
    return total
