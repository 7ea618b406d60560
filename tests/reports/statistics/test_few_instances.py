"""Coverage of the intervals of costs with few instances: at least 92.5 % in eight scenarios.

The simulations have fixed seeds. With 1500 runs, the standard error of a coverage is 0.6 points.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy.stats import norm, ttest_1samp

from reports.estimates import Estimate
from reports.statistics.bootstrap import Bootstrap
from reports.statistics.studentized import cost_per_resolved, difference_of_amounts

RUNS, LEAST = 1500, 0.925
BOOTSTRAP = Bootstrap(resamples=1000)


@dataclass(frozen=True)
class Scenario:
    """Two arms whose costs and verdicts depend on the difficulty of the instance."""

    rates: tuple[float, float] = (0.5, 0.6)
    dearer: float = 1.5
    spread: float = 0.7
    """Standard deviation of the logarithm of the cost."""
    shared: float = 0.5
    """Correlation of the two arms."""
    cap: float = math.inf

    def draw(self, generator: np.random.Generator, instances: int) -> tuple[np.ndarray, np.ndarray]:
        """Return costs and verdicts: arms × instances. Dear instances are resolved less often."""
        hard, own = generator.normal(size=instances), generator.normal(size=(2, instances))
        luck, own_luck = generator.normal(size=instances), generator.normal(size=(2, instances))
        logs = math.sqrt(self.shared) * hard + math.sqrt(1 - self.shared) * own
        cost = np.exp(self.spread * logs) * np.array([[1.0], [self.dearer]])
        skill = math.sqrt(self.shared) * (0.84 * luck - 0.55 * hard)
        skill = skill + math.sqrt(1 - self.shared) * own_luck
        return np.minimum(cost, self.cap), skill < norm.ppf(self.rates)[:, None]


SCENARIOS = {
    "null": Scenario(rates=(0.5, 0.5), dearer=1.0),
    "base": Scenario(),
    "low": Scenario(rates=(0.08, 0.15)),
    "high": Scenario(rates=(0.93, 0.97)),
    "heavy": Scenario(spread=1.5),
    "capped": Scenario(cap=2.0),
    "independent": Scenario(shared=0.0),
    "nearly identical": Scenario(rates=(0.5, 0.52), shared=0.98),
}


@cache
def truth(name: str) -> tuple[float, float]:
    """Return the difference of mean costs and the candidate's cost per resolved instance."""
    cost, resolved = SCENARIOS[name].draw(np.random.default_rng(1), 4_000_000)
    return float(cost[1].mean() - cost[0].mean()), float(cost[1].sum() / resolved[1].sum())


def share_of_hits(found: list[Estimate | None], true: float) -> float:
    """Return the share of the estimates whose interval contains the true value."""
    hits = [each.interval.low <= true <= each.interval.high for each in found if each]
    return sum(hits) / len(hits)


@pytest.mark.full
@pytest.mark.parametrize("instances", [23, 50])
@pytest.mark.parametrize("name", SCENARIOS)
def test_intervals_of_costs_cover(name: str, instances: int) -> None:
    """Difference of costs and cost per resolved instance cover, however skewed the costs are."""
    generator = np.random.default_rng(7)
    differences, ratios = [], []
    for _ in range(RUNS):
        cost, resolved = SCENARIOS[name].draw(generator, instances)
        differences.append(difference_of_amounts(*cost, range(instances), BOOTSTRAP))
        ratios.append(cost_per_resolved(cost[1], resolved[1], range(instances), BOOTSTRAP))
    difference, ratio = truth(name)
    assert share_of_hits(differences, difference) >= LEAST
    assert share_of_hits(ratios, ratio) >= LEAST


def test_a_difference_of_normal_amounts_agrees_with_student() -> None:
    """For normal data and many instances, the interval is that of the paired t-test."""
    baseline, candidate = np.random.default_rng(2).normal(size=(2, 200))
    found = difference_of_amounts(baseline, candidate, range(200), Bootstrap(resamples=20_000))
    expected = ttest_1samp(candidate - baseline, 0).confidence_interval()
    width = expected.high - expected.low
    assert found is not None
    assert found.interval.low == pytest.approx(expected.low, abs=0.05 * width)
    assert found.interval.high == pytest.approx(expected.high, abs=0.05 * width)


def test_extremes_have_limits() -> None:
    """No row, no resolved cell, one instance and equal costs have the limits they must have."""
    assert difference_of_amounts([], [], [], BOOTSTRAP) is None
    assert cost_per_resolved([], [], [], BOOTSTRAP) is None
    assert cost_per_resolved([1.0, 2.0], [0, 0], range(2), BOOTSTRAP) is None
    alone = cost_per_resolved([1.0, 2.0], [1, 0], ["i", "i"], BOOTSTRAP)
    assert alone is not None
    assert (alone.value, alone.interval.low, alone.interval.high) == (3.0, -math.inf, math.inf)
    equal = difference_of_amounts([1.0] * 5, [3.0] * 5, range(5), BOOTSTRAP)
    assert equal is not None
    assert (equal.interval.low, equal.interval.high) == (2.0, 2.0)
    rare = cost_per_resolved([1.0] * 30, [1] + [0] * 29, range(30), BOOTSTRAP)
    assert rare is not None
    assert rare.interval.high == math.inf
    assert 0 < rare.interval.low < rare.value
