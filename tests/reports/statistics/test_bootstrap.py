"""The bootstrap and its uses, compared with scipy, closed forms and its own symmetries."""

import math
import random
import time
from typing import Any

import numpy as np
import pytest
from scipy import stats

from reports.statistics.amounts import (
    difference_of_means,
    ratio_of_costs_per_resolved,
    ratio_of_sums,
)
from reports.statistics.bootstrap import Bootstrap, settings_for
from reports.statistics.studentized import cost_per_resolved

pytestmark = pytest.mark.sampled(4)

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


def test_swapping_the_arms_mirrors_the_interval(costs: tuple) -> None:
    """Swapping the arms inverts the ratio's interval and negates the difference's."""
    baseline, candidate, instances = costs
    ratio = ratio_of_sums(baseline, candidate, instances, BOOTSTRAP)
    inverse = ratio_of_sums(candidate, baseline, instances, BOOTSTRAP)
    assert ratio is not None
    assert inverse is not None
    assert inverse.interval.low == pytest.approx(1 / ratio.interval.high)
    assert inverse.interval.high == pytest.approx(1 / ratio.interval.low)
    difference = difference_of_means(baseline, candidate, instances, BOOTSTRAP)
    negative = difference_of_means(candidate, baseline, instances, BOOTSTRAP)
    assert difference is not None
    assert negative is not None
    assert negative.interval.low == pytest.approx(-difference.interval.high)


def test_amounts_in_another_unit_scale_the_difference_and_not_the_ratio(costs: tuple) -> None:
    """A change of unit scales the difference and keeps the ratio."""
    baseline, candidate, instances = costs
    dollars = difference_of_means(baseline, candidate, instances, BOOTSTRAP)
    cents = difference_of_means(100 * baseline, 100 * candidate, instances, BOOTSTRAP)
    assert cents.interval.high == pytest.approx(100 * dollars.interval.high)
    ratio = ratio_of_sums(100 * baseline, 100 * candidate, instances, BOOTSTRAP)
    assert ratio.interval.low == pytest.approx(
        ratio_of_sums(baseline, candidate, instances, BOOTSTRAP).interval.low
    )


def test_an_arm_against_itself_has_no_width(costs: tuple) -> None:
    """An arm compared with itself has the ratio 1 in every resample, since pairs stay together."""
    baseline, _, instances = costs
    ratio = ratio_of_sums(baseline, baseline, instances, BOOTSTRAP)
    assert (ratio.interval.low, ratio.interval.high) == (1.0, 1.0)


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


def test_cost_per_resolved_of_nothing_resolved_is_undefined() -> None:
    """If nothing is resolved, the cost per resolved instance is undefined, not zero or infinite."""
    assert cost_per_resolved([1.0, 2.0], [False, False], "ab", BOOTSTRAP) is None


def test_a_more_expensive_and_better_arm_can_cost_the_same_per_resolved() -> None:
    """An arm with twice the cost and twice as many resolved has a ratio of 1."""
    resolved = np.arange(100) % 4 == 0, np.arange(100) % 2 == 0
    ones = np.ones(100)
    found = ratio_of_costs_per_resolved(
        ones, resolved[0], 2 * ones, resolved[1], range(100), BOOTSTRAP
    )
    assert found.value == pytest.approx(1.0)
    assert found.interval.low < 1 < found.interval.high
    none = np.zeros(100)
    assert ratio_of_costs_per_resolved(ones, ones, ones, none, range(100), BOOTSTRAP) is None


def test_undefined_resamples_widen_both_sides() -> None:
    """Resamples in which neither arm resolves anything widen the interval on both sides."""
    rare = [True] + [False] * 9
    ones = [1.0] * 10
    found = ratio_of_costs_per_resolved(ones, rare, ones, rare, range(10), BOOTSTRAP)
    assert (found.value, found.interval.low, found.interval.high) == (1.0, -math.inf, math.inf)


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


def test_ten_thousand_resamples_of_five_hundred_instances_are_quick() -> None:
    """10,000 resamples take less than two seconds in the best of three runs."""
    values = np.random.default_rng(1).lognormal(size=(2, 500))
    times = []
    for _ in range(3):
        start = time.perf_counter()
        ratio_of_sums(*values, range(500), Bootstrap())
        times.append(time.perf_counter() - start)
    assert min(times) < 2


def test_a_large_lake_is_resampled_in_parts(costs: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resampling in parts gives an interval of the same width."""
    whole = ratio_of_sums(*costs, BOOTSTRAP)
    monkeypatch.setattr("reports.statistics.bootstrap.DRAWN_AT_ONCE", 1)
    parts = ratio_of_sums(*costs, BOOTSTRAP)
    assert parts.value == whole.value
    width = whole.interval.high - whole.interval.low
    assert parts.interval.high - parts.interval.low == pytest.approx(width, rel=0.1)


@pytest.mark.parametrize(
    ("clusters", "resamples"), [(0, 10_000), (500, 10_000), (2_000, 10_000), (50_000, 1_000)]
)
def test_many_clusters_take_fewer_resamples(clusters: int, resamples: int) -> None:
    """From 2,000 clusters on, the number of resamples falls to at least 1,000."""
    assert settings_for(clusters).resamples == resamples


def test_fewer_resamples_give_the_same_interval_of_many_clusters() -> None:
    """With 20,000 clusters, the limits of 1,000 resamples differ from those of 10,000 by less than
    a fifth of a standard error."""
    generator = np.random.default_rng(3)
    amounts = generator.lognormal(sigma=1.0, size=20_000)
    names = range(len(amounts))

    def mean(total: Any, count: Any) -> Any:
        return total / count

    columns = [amounts, np.ones(len(amounts))]
    many = Bootstrap(resamples=10_000).estimate(mean, columns, names)
    few = settings_for(len(amounts)).estimate(mean, columns, names)
    assert many is not None
    assert few is not None
    error = amounts.std() / np.sqrt(len(amounts))
    assert few.interval.low == pytest.approx(many.interval.low, abs=error / 5)
    assert few.interval.high == pytest.approx(many.interval.high, abs=error / 5)
