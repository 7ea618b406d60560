"""Limits on the time of a line of work, counted over all runs of its attempt."""

import time
from collections.abc import Iterable
from datetime import timedelta

from agent.journal import RecordedStep


class Deadline:
    """When a line of work has to be over; made at the moment it begins or is resumed."""

    def __init__(self, what: str, limit_s: float, spent_s: float = 0.0) -> None:
        """`spent_s`: what earlier runs have used of it."""
        self.what = f"{what} has used its {limit_s:g} s"
        self._ends_at = time.monotonic() + limit_s - spent_s

    @property
    def left_s(self) -> float:
        """Seconds until then; negative once it is over."""
        return self._ends_at - time.monotonic()


def covered_s(steps: Iterable[RecordedStep]) -> float:
    """Seconds during which at least one of the steps was running: concurrent ones count once."""
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
