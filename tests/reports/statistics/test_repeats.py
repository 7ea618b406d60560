"""pass@k and the correlation of repeats, compared with enumeration and a published example."""

from collections.abc import Sequence
from math import inf

import numpy as np
import pytest
from numpy.typing import ArrayLike

from reports.statistics.repeats import split_variance


def correlation(values: ArrayLike, instances: Sequence[object]) -> float:
    """Return the share of the variance between instances."""
    split = split_variance(values, instances)
    assert split is not None
    return split.correlation


def test_the_parts_of_the_variance_give_the_standard_error() -> None:
    """The parts that were simulated are found, and the error of a mean is that of its repetitions.

    It falls to a limit with the repeats.
    """
    generator = np.random.default_rng(5)
    runs, instances, repeats = 400, 40, 3
    shared = generator.normal(scale=0.5, size=(runs, instances, 1))
    values = shared + generator.normal(scale=0.8, size=(runs, instances, repeats))
    split = split_variance(values.ravel(), np.arange(runs * instances).repeat(repeats).tolist())
    assert split is not None
    assert (split.between, split.within) == pytest.approx((0.25, 0.64), abs=0.02)
    observed = float(values.mean(axis=(1, 2)).std())
    assert split.standard_error(instances, repeats) == pytest.approx(observed, rel=0.08)
    assert split.standard_error(instances, inf) == pytest.approx((0.25 / 40) ** 0.5, rel=0.05)


def test_the_correlation_of_repeats_gives_the_value_of_shrout_and_fleiss() -> None:
    """The value equals ICC(1,1) = 0.17 of Shrout and Fleiss (1979), table 2."""
    ratings = [9, 2, 5, 8, 6, 1, 3, 2, 8, 4, 6, 8, 7, 1, 2, 6, 10, 5, 6, 9, 6, 2, 4, 7]
    targets = [number // 4 for number in range(24)]
    assert correlation(ratings, targets) == pytest.approx(0.17, abs=5e-3)


def test_the_correlation_of_repeats_at_its_limits() -> None:
    """The correlation is 1 for identical repeats, 0 without shared variance, or undefined."""
    assert correlation([1, 1, 0, 0], ["a", "a", "b", "b"]) == 1.0
    assert correlation([1, 0, 1, 0], ["a", "a", "b", "b"]) == 0.0
    assert split_variance([1, 0], ["a", "b"]) is None
    assert split_variance([0, 0, 0, 0], ["a", "a", "b", "b"]) is None
