"""Paired statistics, compared with published tables and their own properties."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import xlogy
from scipy.stats import binom, binomtest, multinomial

from reports.estimates import InstanceLeads, Interval, PairedTable
from reports.statistics.families import holm
from reports.statistics.paired import (
    PairedTest,
    instance_leads,
    is_non_inferior,
)
from tests.reports.statistics.leads import single_leads

counts = st.integers(0, 200)
tables = st.builds(PairedTable, counts, counts, counts, counts)
leads = st.dictionaries(
    st.tuples(st.integers(1, 5), st.integers(-5, 5)).filter(lambda key: abs(key[1]) <= key[0]),
    st.integers(1, 12),
    min_size=1,
    max_size=6,
)


def single(table: PairedTable) -> PairedTest:
    """Return the test of a table in which every pair is an instance."""
    return PairedTest(table, single_leads(table))


def repeated(counts: dict[tuple[int, int], int]) -> PairedTest:
    """Return a test of instances in which each instance has no more differing pairs than it must.

    The keys are numbers of pairs and leads.
    """
    found = InstanceLeads(counts)
    first = sum(-lead * number for (_, lead), number in counts.items() if lead < 0)
    second = sum(lead * number for (_, lead), number in counts.items() if lead > 0)
    return PairedTest(PairedTable(0, first, second, found.pairs - first - second), found)


tests = st.one_of(st.builds(single, tables), st.builds(repeated, leads))


@settings(max_examples=150, deadline=None)
@given(tests)
def test_p_and_interval_never_contradict_each_other(test: PairedTest) -> None:
    """The p-value is below 5 % exactly if the interval excludes 0."""
    interval, p = test.interval(), test.p_value()
    assert (p < 0.05) == (not interval.low <= 0 <= interval.high) or abs(p - 0.05) < 1e-4


@settings(max_examples=100, deadline=None)
@given(tables)
def test_swapping_the_arms_or_counting_failures_mirrors_the_interval(table: PairedTable) -> None:
    """The test has no direction."""
    test = single(table)
    swapped = PairedTable(table.both, table.only_candidate, table.only_baseline, table.neither)
    failures = PairedTable(table.neither, table.only_candidate, table.only_baseline, table.both)
    interval = test.interval()
    for mirrored in (single(swapped), single(failures)):
        assert mirrored.p_value() == pytest.approx(test.p_value(), rel=1e-9)
        found = mirrored.interval()
        assert (-found.high, -found.low) == pytest.approx((interval.low, interval.high), abs=1e-5)


@pytest.mark.parametrize(("first", "second"), [(1, 7), (6, 16), (40, 73)])
def test_pairs_that_all_differ_have_mcnemars_exact_p(first: int, second: int) -> None:
    """If all pairs differ, p is that of McNemar's exact test. If most agree, it is between that
    and the mid-p of Fagerland et al. (2013)."""
    exact = binomtest(first, first + second).pvalue
    assert single(PairedTable(0, first, second, 0)).p_value() == pytest.approx(exact, rel=1e-9)
    mid = exact - binom.pmf(min(first, second), first + second, 0.5)
    assert mid < single(PairedTable(300, first, second, 200)).p_value() < exact


@settings(max_examples=60, deadline=None)
@given(tables.filter(lambda table: table.pairs > 0), st.floats(-0.9, 0.9))
def test_the_restricted_model_has_the_largest_likelihood(
    table: PairedTable, difference: float
) -> None:
    """No other share of differing pairs with the same difference makes the table more likely."""
    model = single(table)._fit(difference)
    concordant = table.both + table.neither

    def log_likelihood(first: float) -> float:
        chances = (first, first + difference, 1 - 2 * first - difference)
        observed = (table.only_baseline, table.only_candidate, concordant)
        return sum(xlogy(n, max(chance, 0.0)) for n, chance in zip(observed, chances, strict=True))

    least, most = max(0.0, -difference), (1 - difference) / 2
    best = log_likelihood(model.only_baseline)
    for step in range(101):
        other = log_likelihood(least + (most - least) * step / 100)
        assert best >= other - 1e-6 * max(1.0, abs(other))


@pytest.mark.parametrize("pairs", [23, 50])
@pytest.mark.parametrize("difference", [0.0, -0.05, -0.1, -0.2])
def test_the_errors_keep_their_level_at_every_share(pairs: int, difference: float) -> None:
    """Over all shares of differing pairs, each side errs in at most 2.5 %, summed over all
    tables. The upper limit of false "not worse" at a loss of the margin is one of these sides."""
    found = [
        (first, second, single(PairedTable(0, first, second, pairs - first - second)))
        for first in range(pairs + 1)
        for second in range(pairs + 1 - first)
    ]
    sides = np.array([test._compute_tails(difference) for _, _, test in found]) <= 0.025
    first, second = np.array([(a, b) for a, b, _ in found]).T
    least = max(0.0, -difference)
    for share in np.linspace(least, (1 - difference) / 2, 42)[:-1]:
        chances = (share, share + difference, 1 - 2 * share - difference)
        cells = np.column_stack([first, second, pairs - first - second])
        weights = multinomial(pairs, chances).pmf(cells)
        assert (weights @ sides <= 0.025).all()


def test_without_pairs_nothing_is_known() -> None:
    """Without pairs, the interval is the whole range from -1 to 1, and p is 1."""
    test = single(PairedTable(0, 0, 0, 0))
    assert (test.interval(), test.p_value()) == (Interval(-1, 1), 1.0)


@settings(max_examples=40, deadline=None)
@given(
    st.builds(PairedTable, *[st.integers(0, 12)] * 4).filter(lambda table: table.pairs > 1),
    st.integers(2, 20),
)
def test_identical_repeats_change_nothing(table: PairedTable, repeats: int) -> None:
    """Repeats that are copies say as much as one of them."""
    copies = PairedTest(
        PairedTable(
            repeats * table.both,
            repeats * table.only_baseline,
            repeats * table.only_candidate,
            repeats * table.neither,
        ),
        InstanceLeads(
            {(repeats, repeats * lead): n for (_, lead), n in single_leads(table).counts.items()}
        ),
    )
    once = single(table)
    assert copies.p_value() == pytest.approx(once.p_value(), abs=1e-9)
    found, expected = copies.interval(), once.interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-5)


def test_leads_are_counted_by_instance() -> None:
    """Leads are summed by instance. A cell without a verdict is not resolved."""
    found = instance_leads(
        ["x", "y", "x", "z", "x", "y"],
        [True, False, None, True, False, True],
        [True, True, True, None, True, None],
    )
    assert found == InstanceLeads({(3, 2): 1, (2, 0): 1, (1, -1): 1})
    assert (found.instances, found.pairs, found.total, found.differing) == (3, 6, 1, 2)
    assert instance_leads([], [], []) == InstanceLeads({})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: PairedTable(1, -1, 0, 0),
        lambda: PairedTable(0, 0, 0, 0).difference,
    ],
)
def test_impossible_arguments_are_a_value_error(wrong: Callable[[], object]) -> None:
    """Impossible arguments raise ValueError."""
    with pytest.raises(ValueError, match="."):
        wrong()


def test_non_inferiority_is_about_the_lower_limit() -> None:
    """Non-inferiority requires the lower limit to be above the negative margin."""
    assert is_non_inferior(Interval(-0.049, 0.02), 0.05)
    assert not is_non_inferior(Interval(-0.05, 0.02), 0.05)
    with pytest.raises(ValueError, match="above 0"):
        is_non_inferior(Interval(0, 1), 0)


@settings(max_examples=20)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_the_definition_and_lies_between_none_and_bonferroni(values: list[float]) -> None:
    """By Holm's definition, the adjusted value is the largest scaled value up to each rank."""
    ranked = sorted(values)
    scaled = [min(1.0, (len(values) - rank) * p) for rank, p in enumerate(ranked)]
    expected = [max(scaled[: ranked.index(p) + 1]) for p in values]
    # Equal p-values get the adjustment of their first rank or the same one of a later rank.
    assert holm(values) == pytest.approx(expected)
    for p, adjusted in zip(values, holm(values), strict=True):
        assert p <= adjusted <= min(1, len(values) * p) + 1e-12
