"""The bootstrap and its uses, compared with scipy, closed forms and its own symmetries."""

import math
import random

import numpy as np
import pytest
from scipy import stats

from reports.statistics.amounts import (
    difference_of_means,
    ratio_of_sums,
)
from reports.statistics.bootstrap import Bootstrap, settings_for
from reports.statistics.studentized import cost_per_resolved

BOOTSTRAP = Bootstrap(resamples=4000, seed=7)


@pytest.fixture(scope="module")
def costs() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return skewed costs of two arms that are correlated by instance."""
    generator = np.random.default_rng(3)
    instance = generator.normal(size=200)
    baseline = np.exp(0.6 * instance + 0.5 * generator.normal(size=200))
    candidate = 1.5 * np.exp(0.6 * instance + 0.5 * generator.normal(size=200))
    return baseline, candidate, [f"i{number:03}" for number in range(200)]


def test_a_ratio_agrees_with_scipy(costs: tuple) -> None:
    """A ratio and its interval equal those of `scipy.stats.bootstrap` up to random error."""
    baseline, candidate, instances = costs
    found = ratio_of_sums(baseline, candidate, instances, Bootstrap(resamples=20_000))
    expected = stats.bootstrap(
        (baseline, candidate),
        lambda a, b, axis: b.sum(axis) / a.sum(axis),
        paired=True,
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(5),
    ).confidence_interval
    width = expected.high - expected.low
    assert found is not None
    assert found.value == pytest.approx(candidate.sum() / baseline.sum())
    assert found.interval.low == pytest.approx(expected.low, abs=0.05 * width)
    assert found.interval.high == pytest.approx(expected.high, abs=0.05 * width)
    assert (found.clusters, found.degenerate) == (200, 0)


def test_a_difference_agrees_with_student(costs: tuple) -> None:
    """For normal data, the interval of a mean difference equals that of the paired t-test."""
    generator = np.random.default_rng(11)
    baseline, candidate = generator.normal(size=(2, 12))
    found = difference_of_means(baseline, candidate, range(12), Bootstrap(resamples=40_000))
    expected = stats.ttest_rel(candidate, baseline).confidence_interval()
    width = expected.high - expected.low
    assert found is not None
    assert found.interval.low == pytest.approx(expected.low, abs=0.06 * width)
    assert found.interval.high == pytest.approx(expected.high, abs=0.06 * width)


def test_the_same_seed_gives_the_same_interval_in_any_order(costs: tuple) -> None:
    """The interval depends on the seed, not on the order of the rows."""
    baseline, candidate, instances = costs
    order = list(range(len(instances)))
    random.Random(1).shuffle(order)
    shuffled = [baseline[order], candidate[order], [instances[i] for i in order]]
    found = ratio_of_sums(*costs, BOOTSTRAP)
    assert found == ratio_of_sums(*shuffled, BOOTSTRAP)
    assert found != ratio_of_sums(*costs, Bootstrap(resamples=4000, seed=8))


def test_repeats_of_an_instance_are_drawn_together(costs: tuple) -> None:
    """Duplicated rows of the same instances do not narrow the interval."""
    baseline, candidate, instances = costs
    once = difference_of_means(baseline, candidate, instances, BOOTSTRAP)
    twice = [np.tile(baseline, 2), np.tile(candidate, 2)]
    together = difference_of_means(*twice, instances * 2, BOOTSTRAP)
    apart = difference_of_means(*twice, range(400), BOOTSTRAP)
    assert together.interval.low == pytest.approx(once.interval.low)
    assert together.interval.high == pytest.approx(once.interval.high)
    width = apart.interval.high - apart.interval.low
    assert width == pytest.approx((once.interval.high - once.interval.low) / 2**0.5, rel=0.1)


def test_cost_per_resolved_counts_resamples_without_any() -> None:
    """Resamples without a resolved instance are counted and make the upper limit infinite."""
    found = cost_per_resolved([1.0] * 10, [True] + [False] * 9, range(10), BOOTSTRAP)
    assert found.value == 10.0
    assert found.degenerate / 4000 == pytest.approx(0.9**10, abs=0.03)
    assert found.interval.high == math.inf
    assert 2 <= found.interval.low < 10


def test_nothing_to_resample() -> None:
    """Without rows there is no ratio, and with one cluster the interval is infinite."""
    assert ratio_of_sums([], [], [], BOOTSTRAP) is None
    assert ratio_of_sums([0.0], [1.0], ["a"], BOOTSTRAP) is None
    single = ratio_of_sums([1.0, 1.0], [2.0, 4.0], ["a", "a"], BOOTSTRAP)
    assert (single.value, single.interval.low, single.interval.high) == (3, -math.inf, math.inf)


def test_columns_have_one_value_for_each_row() -> None:
    """Columns of different lengths raise ValueError."""
    with pytest.raises(ValueError, match="length"):
        ratio_of_sums([1.0, 2.0], [1.0], ["a"], BOOTSTRAP)


@pytest.mark.parametrize(
    ("clusters", "resamples"), [(0, 10_000), (500, 10_000), (2_000, 10_000), (50_000, 1_000)]
)
def test_many_clusters_take_fewer_resamples(clusters: int, resamples: int) -> None:
    """From 2,000 clusters on, the number of resamples falls to at least 1,000."""
    assert settings_for(clusters).resamples == resamples
