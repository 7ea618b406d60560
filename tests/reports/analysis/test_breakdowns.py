"""Breakdowns equal independent calculations."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.statistics.repeats import pass_all_k, pass_at_k


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
