"""Errors that count as the same problem."""

from agent.checks.debugging import in_brief, is_stuck, recall_errors, similar

FIRST = """\
/tmp/durabench-17/repo/tests/test_anchor.py:12: in test_round_trip
    assert loads(dumps(value)) == value
E   AssertionError: assert ['a', 'b'] == ['a', 'b', 'c'] in 0.13s at 0x7f3a21
"""
AGAIN = FIRST.replace("-17", "-423").replace(":12:", ":19:").replace("0.13s", "1.20s")
OTHER = "E   TypeError: unsupported operand type(s) for +: 'int' and 'str'"


def test_numbers_addresses_and_folders_do_not_distinguish_errors() -> None:
    """A failure of another run is the same error. A different failure is not."""
    assert similar(FIRST, AGAIN)
    assert not similar(FIRST, OTHER)


def test_debug_mode_begins_with_a_repeated_error() -> None:
    """The second occurrence of an error begins debug mode, which shows both occurrences."""
    errors = recall_errors([], FIRST)
    assert not is_stuck(errors)
    errors = recall_errors(errors, AGAIN)
    assert is_stuck(errors)
    assert errors == [in_brief(FIRST), in_brief(AGAIN)]
    assert recall_errors(errors, FIRST) == [in_brief(AGAIN), in_brief(FIRST)]


def test_a_different_error_or_a_pass_ends_it() -> None:
    """A different error replaces the remembered ones, and a pass clears them."""
    stuck = [FIRST, AGAIN]
    assert recall_errors(stuck, OTHER) == [in_brief(OTHER)]
    assert recall_errors(stuck, "") == []


def test_two_empty_errors_are_not_alike() -> None:
    """Two errors without text are not similar."""
    assert not similar("", "0x1f 12.5s")
