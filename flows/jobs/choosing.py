"""The patch that a job publishes."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flows.jobs.verification import Verdict
from flows.storage.lake import Row


@dataclass(frozen=True)
class CandidatePatch:
    """The patch of one arm."""

    arm: str
    patch: str
    attempt: Row
    verdict: Verdict
    reason: str
    warnings: tuple[str, ...]
    evidence: str
    """The results of its verification as JSON."""


def best(candidates: Iterable[CandidatePatch]) -> CandidatePatch | None:
    """Return the best patch: verified, then accepted by its own arm, then cheaper.

    Of patches that prove nothing, one with fewer failing tests is better, where existing tests
    count as they are at the base commit. An empty patch is none.
    """
    return min((each for each in candidates if each.patch.strip()), key=_rank, default=None)


def _rank(candidate: CandidatePatch) -> tuple[int, int, bool, bool, float, str]:
    evidence = json.loads(candidate.evidence)
    shown = _failing(evidence["after"])
    real = _failing(evidence["with_old_tests"]) if evidence["with_old_tests"] else shown
    cost = candidate.attempt["cost_usd"]
    return (
        ("verified", "not_verified", "regressed").index(candidate.verdict),
        max(real, shown),
        real > shown,
        candidate.attempt["agent_verdict"] != "accepted",
        math.inf if cost is None else cost,
        candidate.arm,
    )


def _failing(run: dict[str, Any] | None) -> int:
    """Return the number of tests that failed in a run; 0 if there was none."""
    return len(run["failed"]) + len(run["errors"]) if run else 0
