"""Adjusted p-values against their definitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from reports.statistics.families import benjamini_hochberg

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(P_VALUES)
def test_discoveries_are_those_of_statsmodels(values: list[float]) -> None:
    """Benjamini and Hochberg's p-values equal those of statsmodels, also with ties."""
    expected = multipletests(values, method="fdr_bh")[1]
    assert benjamini_hochberg(values) == pytest.approx(list(expected))
