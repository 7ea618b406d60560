"""The sign-flip test: published values, enumeration, scipy, and McNemar's special case."""

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, permutation_test

from reports.statistics import instance_leads, sign_flip
from reports.types import InstanceLeads, PValues

DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
"""Cross- minus self-fertilised maize in eighths of an inch, from Fisher (1935), section 21."""


def flipped(leads: Sequence[int]) -> PValues:
    """Return the p-values for one lead per instance."""
    return sign_flip(Counter(leads))


def enumerated(leads: Sequence[int]) -> PValues:
    """Return the p-values by definition, over all assignments of signs."""
    observed = abs(sum(leads))
    sums = [
        abs(sum(sign * lead for sign, lead in zip(signs, leads, strict=True)))
        for signs in product((1, -1), repeat=len(leads))
    ]
    beyond = sum(each > observed for each in sums) / len(sums)
    at = sum(each == observed for each in sums) / len(sums)
    if not any(leads):
        return PValues(1.0, 1.0)
    return PValues(beyond + at, beyond + at / 2)


def test_fisher_1935() -> None:
    """The p-value equals that of Fisher (1935): 863 of 32,768 assignments in each tail."""
    assert flipped(DARWIN).exact == pytest.approx(2 * 863 / 2**15, rel=1e-12)


@given(st.lists(st.integers(-6, 6), max_size=9))
def test_every_assignment_of_signs_counts_once(leads: list[int]) -> None:
    """The p-values equal those of enumeration, for any number of repeats per instance."""
    assert flipped(leads) == pytest.approx(enumerated(leads), abs=1e-12)


def test_scipy_enumerates_the_same() -> None:
    """The exact p-value equals that of scipy's permutation test of paired samples."""
    leads = [3, -1, 2, 5, 0, 4, -2, 1, 5, 3, -4, 2]
    theirs = permutation_test(
        (np.array(leads),), lambda x, axis: x.sum(axis=axis),
        permutation_type="samples", vectorized=True, n_resamples=np.inf,
    )  # fmt: skip
    assert flipped(leads).exact == pytest.approx(theirs.pvalue, abs=1e-12)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 4), (9, 9), (40, 73), (0, 500)])
def test_one_cell_per_instance_is_mcnemars_test(first: int, second: int) -> None:
    """With one cell per instance, the test equals McNemar's, even in the far tail."""
    expected = binomtest(first, first + second).pvalue if first + second else 1.0
    assert sign_flip({-1: first, 1: second}).exact == pytest.approx(expected, rel=1e-11)


def test_leads_of_one_size_are_mcnemars_test_over_instances() -> None:
    """If all leads have the same size, the test equals McNemar's test over instances."""
    for size in (1, 4, 20):
        assert sign_flip({size: 4, -size: 1}).exact == pytest.approx(0.375, abs=1e-15)


def test_the_far_tail_is_exact() -> None:
    """A p-value in the far tail is exact, not a rounding error near 1."""
    assert sign_flip({3: 100, 5: 100}).exact == pytest.approx(2**-199, rel=1e-12)


def test_many_instances_underflow_to_0() -> None:
    """A p-value too small for a float is 0, without a warning or an error."""
    assert sign_flip({1: 20_000, 2: 20_000}) == PValues(0.0, 0.0)
    assert 0.9 < sign_flip({1: 20_000, -1: 20_000, 2: 5}).exact < 1


def test_the_arms_may_be_exchanged() -> None:
    """Swapping the arms does not change the p-values of the two-sided test."""
    leads = {3: 4, -1: 2, 2: 1}
    assert sign_flip(leads) == sign_flip({-lead: count for lead, count in leads.items()})


def test_instances_without_a_lead_say_nothing() -> None:
    """Instances without a lead do not change p; if there are no others, p is 1."""
    assert sign_flip({0: 50, 2: 3}) == sign_flip({2: 3})
    assert sign_flip({0: 50}) == sign_flip({}) == PValues(1.0, 1.0)


def test_a_negative_number_of_instances_is_refused() -> None:
    """A negative count raises ValueError with the lead and the count."""
    with pytest.raises(ValueError, match="-1 instances with a lead of 2"):
        sign_flip({2: -1})


def test_leads_are_counted_by_instance() -> None:
    """Leads are summed by instance. A cell without a verdict is not resolved."""
    found = instance_leads(
        ["x", "y", "x", "z", "x", "y"],
        [True, False, None, True, False, True],
        [True, True, True, None, True, None],
    )
    assert found == InstanceLeads(instances=3, effective=36 / 14, counts={2: 1, -1: 1})
    assert found.differing == 2


def test_no_pairs_have_no_leads() -> None:
    """Without pairs there are no leads and no effective pairs."""
    assert instance_leads([], [], []) == InstanceLeads(0, 0.0, {})
