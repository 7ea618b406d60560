"""Experiments whose programs or database are interrupted, and how soon their cells continue."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from agent.journal import Journal
from agent.timings import timings
from tests.operation.running import wait_until
from tests.timing import slowdown

SKILLS = ["0.2", "0.5", "0.8", "1.0"]

CONTINUED_S = 35.0
"""Time after which a lost cell has continued elsewhere. Most of it is waiting for a lease."""


def arms(api_base: str, skills: Sequence[str] = SKILLS) -> list[dict[str, Any]]:
    return [
        {
            "name": f"skill-{skill}",
            "agent": "mini",
            "model": {
                "name": f"openai/skill-{skill}",
                "api_base": api_base,
                "input_cost_per_token": 1e-6,
                "output_cost_per_token": 1e-5,
            },
        }
        for skill in skills
    ]


def expect_continuation(journal: Journal, lost: Mapping[str, str], lost_at: datetime) -> None:
    """Wait until all lost cells have continued elsewhere, and expect them to do so in time.

    `lost` maps their attempts to the workers that had them. After the lease has run out, a busy
    machine works more slowly.
    """
    lease_s = timings().lease_s
    slowdowns: list[float] = []

    def have_continued() -> bool:
        if (datetime.now(UTC) - lost_at).total_seconds() > lease_s:
            slowdowns.append(slowdown())
        return all(continued_at(journal, *each) for each in lost.items())

    wait_until(have_continued)
    times = [continued_at(journal, *each) for each in lost.items()]
    late_s = max((each - lost_at).total_seconds() for each in times if each)
    limit_s = lease_s + (CONTINUED_S - lease_s) * (fmean(slowdowns) if slowdowns else 1.0)
    print(f"cells continued {late_s:.1f} s after they were lost; {limit_s:.1f} s are allowed")
    assert late_s < limit_s


def continued_at(journal: Journal, attempt_id: str, lost: str) -> datetime | None:
    """Return when another worker than the lost one took an attempt and continued it, else None."""
    later = [each for each in journal.tenures(attempt_id) if each.worker != lost]
    has_ended = journal.outcome(attempt_id) is not None
    return next((each.began_at for each in later if each.steps or has_ended), None)
