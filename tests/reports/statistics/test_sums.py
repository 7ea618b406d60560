"""The exact distribution of a sum of leads, against plain convolution and closed forms."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.statistics.sums import SumsModel

sizes = st.dictionaries(st.sampled_from([1, 2, 3, 5, 20]), st.integers(1, 12), min_size=1)
shares = st.floats(0, 1).flatmap(
    lambda first: st.tuples(st.just(first), st.floats(0, max(0.0, 1 - first)))
)
models = st.builds(
    lambda chances, alike, sizes: SumsModel(*chances, alike, sizes),
    shares,
    st.sampled_from([0.0, 0.3, 1.0]) | st.floats(0, 1),
    sizes,
)


def convolved(model: SumsModel) -> np.ndarray:
    """Return the chances of all sums, instance by instance."""
    pair = np.array([model.only_baseline, model.neither_leads, model.only_candidate])
    found = np.ones(1)
    for size, instances in model.sizes.items():
        apart, copies = np.ones(1), np.zeros(2 * size + 1)
        for _ in range(size):
            apart = np.convolve(apart, pair)
        copies[[0, size, -1]] = pair
        for _ in range(instances):
            found = np.convolve(found, model.alike * copies + (1 - model.alike) * apart)
    return found


@settings(max_examples=100, deadline=None)
@given(models, st.floats(0, 1))
def test_the_tails_are_those_of_convolution(model: SumsModel, place: float) -> None:
    """Both tails equal sums of a convolution over all instances."""
    chances = convolved(model)
    at = round(place * 2 * model.pairs)
    found = model.tails(at - model.pairs)
    assert found.at_least == pytest.approx(min(1.0, chances[at:].sum()), rel=1e-7, abs=1e-12)
    assert found.at_most == pytest.approx(min(1.0, chances[: at + 1].sum()), rel=1e-7, abs=1e-12)


def test_far_tails_are_precise() -> None:
    """Chances far below the rounding of a number near 1 have correct digits."""
    coin = SumsModel(0.5, 0.5, 0.0, {1: 400})
    assert coin.tails(400).at_least == pytest.approx(2.0**-400, rel=1e-9)
    expected = sum(comb(400, heads) for heads in range(371)) / 2**400
    assert coin.tails(-400 + 2 * 370).at_most == pytest.approx(expected, rel=1e-9)
    rare = sum(comb(400, heads) for heads in range(31)) / 2**400
    assert coin.tails(-400 + 2 * 30).at_most == pytest.approx(rare, rel=1e-9)


def test_many_instances_have_a_normal_sum() -> None:
    """The tail of 50,000 instances is that of a normal distribution with half a step added."""
    from scipy.stats import norm

    model = SumsModel(0.1, 0.1, 0.0, {1: 50_000})
    expected = norm.sf((150 - 0.5) / np.sqrt(50_000 * model.variance))
    assert model.tails(150).at_least == pytest.approx(expected, rel=1e-3)


@settings(max_examples=50, deadline=None)
@given(models)
def test_the_share_without_a_lead_is_that_of_independent_pairs(model: SumsModel) -> None:
    """The expected share of instances without a lead counts sums of independent pairs."""
    apart = SumsModel(model.only_baseline, model.only_candidate, 0.0, model.sizes)
    each = [
        instances
        * convolved(SumsModel(apart.only_baseline, apart.only_candidate, 0.0, {size: 1}))[size]
        for size, instances in model.sizes.items()
    ]
    expected = sum(each) / sum(model.sizes.values())
    assert apart.share_without_lead() == pytest.approx(expected, abs=1e-12)
