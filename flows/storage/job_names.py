"""The names of the experiments of jobs, and the final states of jobs."""

import re

FINAL = ("done", "failed", "cancelled")
"""States of jobs that have ended, in the lake's table `jobs`."""

_NAME = re.compile(r"job-(?P<id>[0-9a-f]{6,32})")


def experiment_of(job_id: str) -> str:
    """Return the name of the experiment of a job."""
    return f"job-{job_id}"


def job_of(experiment: str) -> str | None:
    """Return the id of the job whose experiment has that name; None for any other experiment."""
    named = _NAME.fullmatch(experiment)
    return named["id"] if named else None
