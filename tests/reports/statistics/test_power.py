"""Power of the exact McNemar test: published values, enumeration and its own symmetries."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from reports.statistics import (
    effective_pairs,
    instances_needed,
    mcnemar_exact,
    mcnemar_power,
    pairs_needed,
    smallest_detectable_difference,
)

pytestmark = pytest.mark.sampled(2)

plans = st.tuples(st.integers(1, 60), st.floats(0.05, 1), st.floats(0, 1))


def test_power_gives_the_published_values() -> None:
    """The values equal those of pwrss 1.3, which is validated against PASS and G*Power."""
    assert mcnemar_power(100, 0.3, 0.1) == pytest.approx(0.373077084, abs=1e-9)
    assert mcnemar_power(249, 0.3, 0.1) == pytest.approx(0.801446921, abs=1e-9)
    assert pairs_needed(0.3, 0.1, 0.8) == 249


@settings(max_examples=30)
@given(plans)
@example((18, 0.9971594293134106, 1.0))
@example((26, 0.9980769632257968, 1.0))
def test_power_is_the_sum_over_all_tables(plan: tuple[int, float, float]) -> None:
    """The power is the sum of the probabilities of all significant tables."""
    pairs, discordance, share = plan
    difference = share * discordance
    better = (discordance + difference) / 2
    expected = sum(
        binom.pmf(discordant, pairs, discordance)
        * binom.pmf(first, discordant, better / discordance)
        for discordant in range(pairs + 1)
        for first in range(discordant + 1)
        if P_VALUES[first, discordant - first] <= 0.05
    )
    assert mcnemar_power(pairs, discordance, difference) == pytest.approx(expected, abs=1e-9)


P_VALUES = np.array([[mcnemar_exact(a, b) for b in range(61)] for a in range(61)])


def test_power_does_not_depend_on_which_arm_is_better() -> None:
    """The power is the same for both directions, as the test is two-sided."""
    assert mcnemar_power(80, 0.3, 0.15) == mcnemar_power(80, 0.3, -0.15)


def test_power_at_its_limits() -> None:
    """The power is at most the level without a difference, and grows with pairs and difference."""
    assert 0.01 < mcnemar_power(500, 0.3, 0.0) <= 0.05
    by_pairs = [mcnemar_power(pairs, 0.3, 0.1) for pairs in (50, 100, 200, 400, 3000)]
    assert by_pairs == sorted(by_pairs)
    assert by_pairs[-1] == pytest.approx(1.0)
    by_difference = [mcnemar_power(200, 0.3, difference / 20) for difference in range(7)]
    assert by_difference == sorted(by_difference)
    assert mcnemar_power(100, 0.0, 0.0) == 0.0
    assert mcnemar_power(0, 0.3, 0.1) == 0.0


@pytest.mark.parametrize(
    ("discordance", "difference", "power"),
    [(0.3, 0.1, 0.8), (0.2, 0.1, 0.8), (0.1, 0.08, 0.9), (0.5, 0.3, 0.8), (0.05, 0.05, 0.8)],
)
def test_pairs_needed_are_the_fewest(discordance: float, difference: float, power: float) -> None:
    """The number of pairs equals the smallest one found by trying all."""
    found = pairs_needed(discordance, difference, power)
    enough = (n for n in range(1, 1000) if mcnemar_power(n, discordance, difference) >= power)
    assert found == next(enough)


def test_pairs_needed_gives_up_beyond_a_million() -> None:
    """If more than a million pairs are needed, the result is None."""
    assert pairs_needed(0.5, 0.001, 0.8) is None


@pytest.mark.parametrize("pairs", [40, 150, 500])
def test_the_smallest_detectable_difference_has_the_power(pairs: int) -> None:
    """The smallest detectable difference has exactly the requested power."""
    found = smallest_detectable_difference(pairs, 0.4, 0.8)
    assert mcnemar_power(pairs, 0.4, found) == pytest.approx(0.8, abs=1e-6)
    assert mcnemar_power(pairs, 0.4, found - 1e-4) < 0.8


def test_too_few_pairs_detect_nothing() -> None:
    """Too few pairs, or none that can differ, detect no difference."""
    assert smallest_detectable_difference(5, 1.0, 0.8) is None
    assert smallest_detectable_difference(500, 0.0, 0.8) is None


def test_repeats_are_worth_what_their_correlation_leaves() -> None:
    """Fully correlated repeats add no pairs; independent ones count almost fully.

    The quantile of Student's t with 99 degrees of freedom is 1.984.
    """
    assert effective_pairs(100, 4, 1.0) == effective_pairs(100, 1, 0.0) == 100
    assert effective_pairs(100, 4, 0.0) == int(400 * (1.959964 / 1.984217) ** 2) == 390
    assert effective_pairs(100, 3, 0.5) == int(150 * (1.959964 / 1.984217) ** 2) == 146
    with pytest.raises(ValueError, match="between 0 and 1"):
        effective_pairs(100, 3, 1.5)


def test_repeats_cannot_replace_instances() -> None:
    """Repeats of five instances add no effective pairs, as five equal signs give p = 0.0625."""
    assert effective_pairs(5, 1000, 0.0) == 5
    assert effective_pairs(5, 1000, 0.0, level=0.1) > 100
    assert effective_pairs(6, 1000, 0.0) > 100


@given(st.integers(0, 300), st.integers(1, 9), st.floats(0, 1))
def test_the_instances_needed_are_the_fewest(pairs: int, repeats: int, correlation: float) -> None:
    """The number of instances suffices, and one fewer does not."""
    instances = instances_needed(pairs, repeats, correlation)
    assert effective_pairs(instances, repeats, correlation) >= pairs
    assert instances == 0 or effective_pairs(instances - 1, repeats, correlation) < pairs


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((1.2, 0.1, 0.8), "discordance of 1.2"),
        ((0.1, 0.2, 0.8), "cannot be larger"),
        ((0.3, 0.0, 0.8), "difference of 0"),
        ((0.3, 0.1, 1.0), "power of 1.0"),
        ((0.3, 0.1, 0.8, 0.0), "level of 0.0"),
    ],
)
def test_impossible_arguments_are_refused(arguments: tuple, reason: str) -> None:
    """Impossible arguments raise ValueError with the wrong value."""
    with pytest.raises(ValueError, match=reason):
        pairs_needed(*arguments)
