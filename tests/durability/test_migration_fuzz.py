"""Attempts that are handed over between workers, with real processes and real kills."""

import pytest

from tests.durability.migration_fuzz import KINDS, fuzz


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_attempts_survive_being_handed_over_by_force(kind: str) -> None:
    """With programs and children in flight, results are equal and only lost calls are repeated."""
    tally = fuzz(kind, workers=3, iterations=1, max_n=5, seed=3)
    assert tally.kills
    assert (tally.wrongly_twice, tally.differing) == ([], [])
