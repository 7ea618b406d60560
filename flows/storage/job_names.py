"""The names of the experiments of jobs, and the final states of jobs."""

import re

from flows.storage.lake import Lake

FINAL = ("done", "failed", "cancelled")
"""States of jobs that have ended, in the lake's table `jobs`."""

_LEAST = 6
_NAME = re.compile(r"job-(?P<id>[0-9a-f]{6,32})")


def experiment_of(job_id: str) -> str:
    """Return the name of the experiment of a job."""
    return f"job-{job_id}"


def job_of(experiment: str) -> str | None:
    """Return the id of the job whose experiment has that name; None for any other experiment."""
    named = _NAME.fullmatch(experiment)
    return named["id"] if named else None


def resolve_attempt(lake: Lake, prefix: str) -> str:
    """Return the attempt of the job with this prefix of its id, or the prefix if none has it.

    A few characters name an attempt, not a job.
    """
    rows = lake.all_shared("jobs") if len(prefix) >= _LEAST else []
    attempts = [row["attempt_id"] for row in rows if row["job_id"].startswith(prefix)]
    return attempts[0] if len(attempts) == 1 and attempts[0] else prefix
