"""The attempts of a job that wait for a person, and what for."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent.journal import Attempt, Journal, Wanted
from agent.journal.watching import Watched
from flows.storage.job_names import experiment_of
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake

MOST_CHARACTERS = 4_000


@dataclass(frozen=True)
class Asking:
    """An attempt that waits for a person."""

    attempt: Attempt
    wanted: Wanted
    about: str
    """The question, the plan or the patch that needs a reaction."""
    since: datetime

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON, with a long text cut off."""
        return {
            "arm": self.attempt.arm,
            "attempt": self.attempt.attempt_id,
            "wanted": self.wanted,
            "about": self.about[:MOST_CHARACTERS],
            "since": self.since.isoformat(timespec="milliseconds"),
        }


def asking(lake: Lake, job_id: str) -> list[Asking]:
    """Return the attempts of a job that wait for a person, by arm."""
    return asking_of(lake, [job_id])[job_id]


def asking_of(lake: Lake, job_ids: Collection[str]) -> dict[str, list[Asking]]:
    """Return the attempts that wait for a person by job, in the order of their arms."""
    found: dict[str, list[Asking]] = {job_id: [] for job_id in job_ids}
    journal = existing_journal(lake)
    if journal is None:
        return found
    at_work = [each.attempt for each in _watched(journal, found) if not each.has_ended]
    waits = journal.watching.waits([attempt.attempt_id for attempt in at_work])
    jobs = {experiment_of(job_id): job_id for job_id in found}
    for attempt in at_work:
        wait = waits.get(attempt.attempt_id)
        if wait is not None and not wait.is_answered:
            one = Asking(attempt, wait.wanted, wait.about, wait.since)
            found[jobs[attempt.experiment]].append(one)
    return found


def open_attempts(lake: Lake, job_id: str) -> list[Attempt]:
    """Return the attempts of a job that have begun and not ended, by arm."""
    journal = existing_journal(lake)
    every = _watched(journal, [job_id]) if journal else []
    return [each.attempt for each in every if not each.has_ended]


def all_attempts(lake: Lake, job_id: str) -> list[Attempt]:
    """Return the attempts of a job whose steps were not pruned, by arm."""
    journal = existing_journal(lake)
    if journal is None:
        return []
    every = [each.attempt for each in _watched(journal, [job_id])]
    return [each for each in every if journal.pruned_at(each.attempt_id) is None]


def _watched(journal: Journal, job_ids: Iterable[str]) -> list[Watched]:
    every = journal.watching.attempts([experiment_of(job_id) for job_id in job_ids])
    return sorted(every, key=lambda watched: watched.attempt.arm)


def in_a_line(asks: list[Asking]) -> str:
    """Return what these attempts wait for, as the reason why their job waits."""
    return "; ".join(f"arm {each.attempt.arm} waits for a person's {each.wanted}" for each in asks)
