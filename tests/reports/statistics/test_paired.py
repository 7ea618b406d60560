"""Paired statistics, compared with published tables and their own properties."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.statistics import (
    Bootstrap,
    effective_pairs,
    holm,
    is_non_inferior,
    mcnemar_exact,
    mcnemar_mid_p,
    mcnemar_power,
    newcombe_interval,
    paired_table,
    smallest_detectable_difference,
    wilson_interval,
)
from reports.types import Interval, PairedTable

counts = st.integers(0, 200)
tables = st.builds(PairedTable, counts, counts, counts, counts)
verdicts = st.lists(st.tuples(*[st.sampled_from([True, False, None])] * 2), max_size=50)


@pytest.mark.parametrize(
    ("cells", "low", "high"),
    [
        ((36, 12, 2, 0), 0.0569, 0.3404),
        ((20, 12, 2, 16), 0.0562, 0.3292),
        ((18, 12, 2, 18), 0.0562, 0.3290),
        ((36, 14, 0, 0), 0.1528, 0.4167),
        ((35, 14, 0, 1), 0.1461, 0.4175),
        ((18, 14, 0, 18), 0.1441, 0.3963),
        ((2, 97, 1, 0), 0.8721, 0.9854),
        ((0, 29, 1, 0), 0.6666, 0.9882),
        ((1, 98, 0, 1), 0.9171, 0.9916),
        ((0, 30, 0, 0), 0.8395, 1.0),
        ((54, 0, 0, 0), -0.0664, 0.0664),
        ((53, 0, 0, 1), -0.0729, 0.0729),
        ((30, 0, 0, 24), -0.0358, 0.0358),
        ((27, 0, 0, 27), -0.0351, 0.0351),
    ],
)
def test_newcombe_gives_the_intervals_of_his_examples(
    cells: tuple[int, int, int, int], low: float, high: float
) -> None:
    """The intervals equal those of Newcombe's table III, method 10.

    Newcombe (1998), Statistics in Medicine 17, 2635-2650.
    """
    both, only_candidate, only_baseline, neither = cells
    interval = newcombe_interval(PairedTable(both, only_baseline, only_candidate, neither))
    assert interval.low == pytest.approx(low, abs=5.1e-5)
    assert interval.high == pytest.approx(high, abs=5.1e-5)


@given(tables)
def test_newcombe_is_antisymmetric_and_holds_the_difference(table: PairedTable) -> None:
    """Swapping the arms or counting failures mirrors the interval. It contains the difference."""
    interval = newcombe_interval(table)
    swapped = PairedTable(table.both, table.only_candidate, table.only_baseline, table.neither)
    failures = PairedTable(table.neither, table.only_candidate, table.only_baseline, table.both)
    for mirrored in (newcombe_interval(swapped), newcombe_interval(failures)):
        assert (-mirrored.high, -mirrored.low) == pytest.approx((interval.low, interval.high))
    assert -1 - 1e-12 <= interval.low <= interval.high <= 1 + 1e-12
    if table.pairs:
        assert interval.low <= table.difference <= interval.high


def test_newcombe_without_correlation_adds_the_squares_of_wilson() -> None:
    """For uncorrelated arms, the interval adds the squared distances of Wilson's limits."""
    table = PairedTable(both=6, only_baseline=6, only_candidate=14, neither=14)
    first, second = wilson_interval(12, 40), wilson_interval(20, 40)
    below = ((0.5 - second.low) ** 2 + (first.high - 0.3) ** 2) ** 0.5
    assert newcombe_interval(table).low == pytest.approx(0.2 - below)


def test_newcombe_closes_in_on_the_difference() -> None:
    """With a hundred times as many pairs, the interval is about a tenth as wide."""
    small, large = PairedTable(30, 10, 20, 40), PairedTable(3000, 1000, 2000, 4000)
    few, many = newcombe_interval(small), newcombe_interval(large)
    assert (many.high - many.low) * 10 == pytest.approx(few.high - few.low, rel=0.05)


def test_newcombe_without_pairs_knows_nothing() -> None:
    """Without pairs, the interval is the whole range from -1 to 1."""
    assert newcombe_interval(PairedTable(0, 0, 0, 0)) == Interval(-1, 1)


@given(
    st.builds(PairedTable, *[st.integers(0, 12)] * 4).filter(lambda table: table.pairs > 0),
    st.integers(2, 20),
)
def test_newcombe_over_instances_ignores_identical_repeats(
    table: PairedTable, repeats: int
) -> None:
    """Identical repeats do not change the interval over instances."""
    cells = (table.both, table.only_baseline, table.only_candidate, table.neither)
    copied = PairedTable(*(repeats * each for each in cells))
    once = newcombe_interval(table)
    again = newcombe_interval(copied, pairs=table.pairs)
    assert (again.low, again.high) == pytest.approx((once.low, once.high), abs=1e-12)


def test_an_arm_that_resolves_every_repeat_has_an_interval() -> None:
    """Rounding never makes more of the resolved cells than of all cells."""
    pairs = 97.60975732052906  # times 169, by 169, is a little more
    interval = newcombe_interval(PairedTable(0, 0, 169, 0), pairs=pairs)
    assert 0.9 < interval.low < interval.high == 1


@given(tables.filter(lambda table: table.pairs > 0), st.data())
def test_newcombe_is_never_narrower_with_fewer_pairs(
    table: PairedTable, data: st.DataObject
) -> None:
    """Fewer effective pairs never narrow the interval, which always contains the difference."""
    few = data.draw(st.floats(0.5, table.pairs))
    many = data.draw(st.floats(few, table.pairs))
    wide, narrow = newcombe_interval(table, pairs=few), newcombe_interval(table, pairs=many)
    for interval in (wide, narrow):
        assert -1 <= interval.low <= table.difference <= interval.high <= 1
        assert interval.low < interval.high
    assert wide.high - wide.low >= narrow.high - narrow.low - 1e-12


@pytest.mark.parametrize("pairs", [0, -1, 7.5])
def test_a_wrong_number_of_effective_pairs_is_refused(pairs: float) -> None:
    """A number of effective pairs that is not positive or exceeds the table's raises ValueError."""
    with pytest.raises(ValueError, match="a table of 7 pairs cannot be worth"):
        newcombe_interval(PairedTable(1, 2, 3, 1), pairs=pairs)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: mcnemar_exact(-1, 3),
        lambda: mcnemar_mid_p(3, -1),
        lambda: PairedTable(1, -1, 0, 0),
        lambda: PairedTable(0, 0, 0, 0).difference,
        lambda: mcnemar_power(-5, 0.3, 0.1),
        lambda: smallest_detectable_difference(-5, 0.3, 0.8),
        lambda: effective_pairs(-5, 2, 0.5),
        lambda: effective_pairs(5, 0, 0.5),
        lambda: Bootstrap(confidence=1),
        lambda: Bootstrap(confidence=0),
        lambda: Bootstrap(resamples=0),
        lambda: wilson_interval(1, 2, confidence=1),
        lambda: newcombe_interval(PairedTable(1, 1, 1, 1), confidence=1.5),
        lambda: holm([1.2]),
        lambda: holm([0.5, -0.1]),
    ],
)
def test_impossible_arguments_are_a_value_error(wrong: Callable[[], object]) -> None:
    """Impossible arguments raise ValueError."""
    with pytest.raises(ValueError, match="."):
        wrong()


@pytest.mark.parametrize(
    ("first", "second", "exact", "mid_p"),
    [(1, 7, 0.070, 0.039), (6, 16, 0.052, 0.035)],
)
def test_mid_p_gives_the_values_of_fagerland(
    first: int, second: int, exact: float, mid_p: float
) -> None:
    """The values equal those of Fagerland et al. (2013) for both of their examples."""
    assert mcnemar_exact(first, second) == pytest.approx(exact, abs=5e-4)
    assert mcnemar_mid_p(first, second) == pytest.approx(mid_p, abs=5e-4)


@given(st.integers(0, 300), st.integers(0, 300))
def test_mid_p_is_symmetric_and_below_the_exact_value(first: int, second: int) -> None:
    """The mid-p value is symmetric and never above the exact p-value."""
    p = mcnemar_mid_p(first, second)
    assert p == pytest.approx(mcnemar_mid_p(second, first), abs=1e-12)
    assert 0 < p <= mcnemar_exact(first, second) <= 1


def test_mid_p_with_equal_counts_loses_half_of_what_both_tails_share() -> None:
    """With equal counts, the mid-p value is 1 minus half the probability of the observed table."""
    assert mcnemar_mid_p(1, 1) == pytest.approx(1 - 0.5 / 2)
    assert mcnemar_mid_p(0, 0) == 1.0


@given(verdicts, st.randoms())
def test_tables_do_not_depend_on_the_order(pairs: list[tuple], random: object) -> None:
    """Tables do not depend on the order of the pairs, and lost cells stay in them."""
    shuffled = list(pairs)
    random.shuffle(shuffled)
    columns = [[p[0] for p in pairs], [p[1] for p in pairs]]
    again = [[p[0] for p in shuffled], [p[1] for p in shuffled]]
    assert paired_table(*columns) == paired_table(*again)
    assert paired_table(*columns).pairs == len(pairs)


def test_a_cell_without_a_verdict_is_not_resolved() -> None:
    """A cell without a verdict counts as not resolved and stays in the denominator."""
    baseline, candidate = [True, None, True], [True, True, False]
    assert paired_table(baseline, candidate) == PairedTable(1, 1, 1, 0)


def test_columns_of_different_lengths_are_a_programming_error() -> None:
    """Columns of different lengths raise ValueError."""
    with pytest.raises(ValueError, match="shorter"):
        paired_table([True, False], [True])


def test_non_inferiority_is_about_the_lower_limit() -> None:
    """Non-inferiority requires the lower limit to be above the negative margin."""
    assert is_non_inferior(Interval(-0.049, 0.02), 0.05)
    assert not is_non_inferior(Interval(-0.05, 0.02), 0.05)
    with pytest.raises(ValueError, match="above 0"):
        is_non_inferior(Interval(0, 1), 0)


def test_holm_steps_down() -> None:
    """Holm's method scales sorted p-values by 4, 3, 2 and 1 and never lets them decrease."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.6, 0.7]) == (1.0, 1.0)
    assert holm([]) == ()


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
