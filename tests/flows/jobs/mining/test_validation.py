"""The tests of a task, from the results of two rounds."""

import pytest

from flows.jobs.mining.validation import Dropped, compare_runs

BEFORE = {"stays": True, "fails": False, "flaky": False, "flaky after": False, "breaks": True}
AFTER = {"stays": True, "fails": True, "flaky": True, "new": True, "flaky after": True}


def test_a_flaky_test_is_left_out() -> None:
    """A test without a result has failed."""
    found = compare_runs(
        [(BEFORE, AFTER), ({**BEFORE, "flaky": True}, {**AFTER, "flaky after": False})]
    )
    assert (found.fail_to_pass, found.pass_to_pass, found.flaky) == (["fails", "new"], ["stays"], 2)


def test_a_change_without_a_repaired_test_is_dropped() -> None:
    """Flaky tests are another reason."""
    with pytest.raises(Dropped, match="no test fails"):
        compare_runs([(BEFORE, BEFORE)])
    with pytest.raises(Dropped, match="flaky"):
        compare_runs([(BEFORE, AFTER), (BEFORE, BEFORE)])
