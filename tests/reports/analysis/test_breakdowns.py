"""Breakdowns equal independent calculations."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.questions.instances.section import read_repeats
from reports.relations import open_marts
from reports.statistics.proportions import wilson_interval
from reports.statistics.repeats import pass_all_k, pass_at_k
from tests.reports.lake_fixture import LakeBuilder


@given(attempts=st.integers(1, 8), data=st.data())
def test_chances_are_shares_of_all_choices(attempts: int, data: st.DataObject) -> None:
    """pass@k and pass^k are the shares of all choices of k attempts with one and all resolved."""
    verdict = data.draw(st.lists(st.booleans(), min_size=attempts, max_size=attempts))
    k = data.draw(st.integers(1, attempts))
    choices = list(combinations(verdict, k))
    any_one = sum(map(any, choices)) / len(choices)
    all_of_them = sum(map(all, choices)) / len(choices)
    assert float(pass_at_k([attempts], [sum(verdict)], k)[0]) == pytest.approx(any_one)
    assert float(pass_all_k([attempts], [sum(verdict)], k)[0]) == pytest.approx(all_of_them)


def test_repeats_are_flaky_or_not(lake: LakeBuilder) -> None:
    """Instances are always, sometimes or never resolved; the chances follow from their counts."""
    lake.declare(["a"], ["i1", "i2", "i3"], repeats=3)
    for instance, resolved in (("i1", 3), ("i2", 1), ("i3", 0)):
        for repeat in range(3):
            outcome = "resolved" if repeat < resolved else "unresolved"
            lake.cell("a", instance, outcome, repeat=repeat)
    connection = open_marts(lake.root, "trial")
    (repeats,) = read_repeats(connection)
    connection.close()
    assert (repeats.attempts, repeats.always, repeats.flaky, repeats.never) == (3, 1, 1, 1)
    assert [repeats.pass_at[k][0] for k in (1, 2, 3)] == pytest.approx([4 / 9, 5 / 9, 2 / 3])
    assert [repeats.pass_all[k][0] for k in (1, 2, 3)] == pytest.approx([4 / 9, 1 / 3, 1 / 3])
    assert repeats.pass_all[3][1] == wilson_interval(1, 3)
