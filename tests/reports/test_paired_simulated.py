"""Errors of the paired test: a small version of `python -m tests.bench paired`.

If the errors are as promised, one simulation in a thousand exceeds the tolerances.
"""

import pytest

from tests.bench.paired import ALIKE, CONTRADICTIONS, MISSES, WORSE, Scenario, above, simulate

pytestmark = pytest.mark.full

RUNS = 1000
"""Number of simulated experiments."""

DESIGNS = pytest.mark.parametrize(
    ("instances", "repeats"), [(8, 3), (15, 20), (23, 1), (50, 5), (500, 1)]
)


@DESIGNS
@pytest.mark.parametrize("scenario", [ALIKE[0], ALIKE[3]], ids=str)
def test_intervals_hold_the_true_difference(
    instances: int, repeats: int, scenario: Scenario
) -> None:
    """Intervals miss it in at most 6.5 %, and say the same as the p-value."""
    rates = simulate(instances, repeats, scenario, RUNS)
    assert 1 - rates.covered <= above(MISSES, RUNS)
    assert rates.contradictory <= CONTRADICTIONS
    assert rates.rejected <= above(MISSES, RUNS)


@DESIGNS
@pytest.mark.parametrize("scenario", [WORSE[0], WORSE[4], WORSE[6]], ids=str)
def test_false_non_inferiority_is_at_most_nominal(
    instances: int, repeats: int, scenario: Scenario
) -> None:
    """A loss of the whole margin is called "not worse" in at most 2.5 %, in nearly identical arms
    and where only rare instances differ, too."""
    rates = simulate(instances, repeats, scenario, RUNS)
    assert rates.not_worse <= above(0.025, RUNS)
    assert 1 - rates.covered <= above(MISSES, RUNS)
    assert rates.contradictory <= CONTRADICTIONS
    assert rates.narrowest > 0


def test_repeats_make_the_interval_narrower() -> None:
    """With many instances, repeats narrow the interval nearly as much as they are independent, and
    it does not cover much more than 95 %."""
    once, often = (simulate(50, repeats, ALIKE[0], RUNS) for repeats in (1, 5))
    assert often.width < 0.7 * once.width
    assert often.covered <= 0.97 + (1 - 0.95) / RUNS**0.5
