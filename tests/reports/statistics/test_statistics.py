"""Wilson's interval, compared with statsmodels and published examples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from reports.statistics.proportions import wilson_interval


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_intervals_of_newcombe_1998(
    successes: int, trials: int, low: float, high: float
) -> None:
    """The intervals equal those of Newcombe's table I, method 3.

    Newcombe (1998), Statistics in Medicine 17, 857-872.
    """
    interval = wilson_interval(successes, trials)
    assert interval.low == pytest.approx(low, abs=5e-5)
    assert interval.high == pytest.approx(high, abs=5e-5)


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


@pytest.mark.parametrize(("successes", "trials"), [(-1, 3), (4, 3)])
def test_wilson_refuses_impossible_counts(successes: int, trials: int) -> None:
    """Negative successes, or more successes than trials, raise ValueError."""
    with pytest.raises(ValueError, match="successes of"):
        wilson_interval(successes, trials)
