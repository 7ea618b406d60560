"""Acceptability and its frontier, and Fieller's limits, against independent computations."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import t as student

from reports.statistics.fieller import fieller_interval
from reports.statistics.netbenefit import acceptability

VALUES = [0.01, 0.5, 2.0, 10.0, 1000.0]


def by_hand(
    values: list[float], costs: list[list[float]], effects: list[list[float]]
) -> list[list[float]]:
    """Return acceptability by loops over values and resamples, with exact ties."""
    shares = []
    for value in values:
        won = [0.0] * len(costs[0])
        for cost, effect in zip(costs, effects, strict=True):
            benefits = [value * e - c for c, e in zip(cost, effect, strict=True)]
            best = [i for i, benefit in enumerate(benefits) if benefit == max(benefits)]
            for i in best:
                won[i] += 1 / len(best) / len(costs)
        shares.append(won)
    return shares


def test_acceptability_is_that_of_loops() -> None:
    """The shares equal those of plain loops, with ties and an option that achieves nothing."""
    generator = np.random.default_rng(2)
    costs = generator.integers(1, 5, size=(300, 5)).astype(float)
    effects = generator.integers(0, 4, size=(300, 5)).astype(float)
    effects[:, 3] = 0
    costs[:, 4], effects[:, 4] = costs[:, 0], effects[:, 0]
    found = acceptability(VALUES, effects, costs)
    assert found == pytest.approx(np.array(by_hand(VALUES, costs.tolist(), effects.tolist())))
    assert found.sum(axis=1) == pytest.approx(np.ones(len(VALUES)))
    assert found[:, 0] == pytest.approx(found[:, 4])


def test_an_option_of_unknown_cost_is_never_the_best() -> None:
    """A resample without a known cost counts for the other options."""
    costs, effects = np.array([[1.0, math.nan], [5.0, 1.0]]), np.array([[0.0, 1.0], [0.0, 1.0]])
    assert acceptability([3.0], effects, costs).tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("seed", range(5))
def test_fieller_inverts_the_test(seed: int) -> None:
    """The limits are where the studentised difference reaches its critical values."""
    generator = np.random.default_rng(seed)
    first, second = generator.normal([3.0, 2.0], 1.5, size=(60, 2)).T
    spread = np.cov(first, second) / 60
    low, high = student.ppf([0.02, 0.96], 59)

    def statistic(ratio: float) -> float:
        values = first - ratio * second
        return float(values.mean() / (values.std(ddof=1) / math.sqrt(60)))

    ratio = first.mean() / second.mean()
    found = fieller_interval(
        (first.mean(), second.mean()), (spread[0, 0], spread[1, 1], spread[0, 1]), (low, high)
    )
    assert found.low == pytest.approx(brentq(lambda r: statistic(r) - high, ratio - 5, ratio))
    assert found.high == pytest.approx(brentq(lambda r: statistic(r) - low, ratio, ratio + 5))


def test_fieller_is_unlimited_where_the_denominator_may_be_nothing() -> None:
    """If the second mean is not clear of 0, at least one limit is infinite."""
    found = fieller_interval((1.0, 0.1), (0.01, 0.01, 0.0), (-2.0, 2.0))
    assert found.high == math.inf
    assert found.low == pytest.approx((0.1552**0.5 - 0.2) / 0.06)
    assert fieller_interval((0.1, 0.1), (1.0, 1.0, 0.0), (-2.0, 2.0)).low == -math.inf
