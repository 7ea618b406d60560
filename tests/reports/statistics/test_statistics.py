"""Wilson's interval, compared with statsmodels and published examples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from reports.statistics.proportions import wilson_interval


@given(st.integers(1, 600).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_equals_statsmodels_and_is_symmetric(counts: tuple[int, int]) -> None:
    """The interval equals `proportion_confint`, and counting failures mirrors it."""
    successes, trials = counts
    interval = wilson_interval(successes, trials)
    expected = proportion_confint(successes, trials, method="wilson")
    assert (interval.low, interval.high) == pytest.approx(expected, abs=1e-9)
    mirrored = wilson_interval(trials - successes, trials)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx(expected, abs=1e-9)
    assert 0 <= interval.low <= successes / trials <= interval.high <= 1


def test_wilson_without_trials_knows_nothing() -> None:
    """Without trials, the interval is the whole range from 0 to 1."""
    interval = wilson_interval(0, 0)
    assert (interval.low, interval.high) == (0, 1)
