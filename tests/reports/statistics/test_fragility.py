"""The number of wrong verdicts that turns a result, against enumeration."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.estimates import InstanceLeads, PairedTable
from reports.statistics.fragility import (
    Verdicts,
    random_errors_for_another_test,
    wrong_verdicts_for_another_sign,
    wrong_verdicts_for_another_test,
)
from reports.statistics.paired import PairedTest
from tests.reports.statistics.leads import single_leads

Fields = tuple[int, int, int, int]


def p_value(fields: Fields) -> float:
    """Return the p-value of a table without repeats."""
    table = PairedTable(*fields)
    return PairedTest(table, single_leads(table)).p_value()


def verdicts(fields: Fields) -> Counter[Verdicts]:
    """Return the instances of a table without repeats, the leading arm first."""
    both, only_first, only_second, neither = fields
    ahead, behind = max(only_first, only_second), min(only_first, only_second)
    return Counter(
        {
            Verdicts(1, 0, 0): both + neither,
            Verdicts(0, 1, 0): ahead,
            Verdicts(0, 0, 1): behind,
        }
    )


def fewest(fields: Fields) -> int | None:
    """Return the number by definition: over all changes of verdicts of a table of pairs."""
    is_significant = p_value(fields) < 0.05
    seen, new = {fields}, {fields}
    for wrong in range(2 * sum(fields) + 1):
        if any((p_value(table) < 0.05) != is_significant for table in new):
            return wrong
        neighbours = set()
        for table in new:
            # A wrong verdict of one arm moves a pair between neighbouring fields of the square.
            for source, target in product(range(4), repeat=2):
                if table[source] and source != target and source + target != 3:
                    moved = list(table)
                    moved[source] -= 1
                    moved[target] += 1
                    neighbours.add((moved[0], moved[1], moved[2], moved[3]))
        new = neighbours - seen
        seen |= new
    return None


@settings(deadline=None, max_examples=40)
@given(st.tuples(*[st.integers(0, 6)] * 4).filter(lambda fields: 0 < sum(fields) <= 14))
def test_without_repeats_it_is_the_fewest_of_all_changes(fields: Fields) -> None:
    """No smaller set of wrong verdicts of any cells turns the test."""
    assert wrong_verdicts_for_another_test(verdicts(fields), 0.05) == fewest(fields)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 4).flatmap(
        lambda repeats: st.lists(
            st.tuples(st.integers(0, repeats), st.integers(0, repeats))
            .filter(lambda pair: sum(pair) <= repeats)
            .map(lambda pair: Verdicts(repeats - sum(pair), *pair)),
            min_size=1,
            max_size=12,
        )
    )
)
def test_with_repeats_that_many_are_enough(drawn: list[Verdicts]) -> None:
    """A significant test turns by the number that makes the arms equal at the latest."""
    lead = sum(each.ahead - each.behind for each in drawn)
    if lead < 0:
        drawn = [Verdicts(each.alike, each.behind, each.ahead) for each in drawn]
    leads = InstanceLeads(Counter((sum(each), each.ahead - each.behind) for each in drawn))
    table = PairedTable(
        sum(each.alike for each in drawn),
        sum(each.behind for each in drawn),
        sum(each.ahead for each in drawn),
        0,
    )
    found = wrong_verdicts_for_another_test(Counter(drawn), 0.05)
    assert wrong_verdicts_for_another_sign(leads) == abs(lead) + 1
    if PairedTest(table, leads).p_value() < 0.05:
        assert found is not None
        assert 1 <= found <= abs(lead)


@pytest.mark.parametrize(
    ("both", "only_first", "only_second", "repeats"),
    [(150, 20, 60, 1), (20, 2, 18, 1), (20, 3, 15, 4)],
)
def test_random_errors_leave_half_of_the_tests_significant(
    both: int, only_first: int, only_second: int, repeats: int
) -> None:
    """With errors at the rate that is said, the test turns in about every second draw."""
    neither = both
    kinds = [(1, 1)] * both + [(1, 0)] * only_first + [(0, 1)] * only_second + [(0, 0)] * neither
    first, second = np.array(kinds).repeat(repeats, axis=1).reshape(-1, 2, repeats).swapaxes(0, 1)
    exact = Counter((repeats, int(lead)) for lead in (second - first).sum(axis=1))
    rate = random_errors_for_another_test(InstanceLeads(exact), 0.05)
    assert rate is not None
    generator, significant = np.random.default_rng(3), 0
    for _ in range(60):
        drawn = [arm ^ (generator.random(arm.shape) < rate) for arm in (first, second)]
        leads = Counter((repeats, int(lead)) for lead in (drawn[1] - drawn[0]).sum(axis=1))
        counts = [int(((drawn[0] == a) & (drawn[1] == b)).sum()) for a, b in ALL_KINDS]
        significant += PairedTest(PairedTable(*counts), InstanceLeads(leads)).p_value() < 0.05
    assert 0.3 <= significant / 60 <= 0.7


ALL_KINDS = ((1, 1), (1, 0), (0, 1), (0, 0))


def test_without_a_significant_lead_no_errors_are_needed() -> None:
    """Three instances against two are within chance already, and no instances say nothing."""
    for table in (PairedTable(5, 2, 3, 5), PairedTable(0, 0, 0, 0)):
        assert random_errors_for_another_test(single_leads(table), 0.05) is None
