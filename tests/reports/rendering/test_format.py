"""Formats of numbers for readers."""

import pytest

from reports import format as formats


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "unknown"),
        (0, "$0"),
        (1234.5, "$1,234.50"),
        (10.0, "$10.00"),
        (9.999, "$10.00"),
        (1.5, "$1.50"),
        (0.0421, "$0.0421"),
        (0.00001234, "$0.0000123"),
    ],
)
def test_costs_keep_three_digits_when_small_and_cents_when_large(
    amount: float | None, text: str
) -> None:
    """An unknown cost is the word `unknown`, and a small cost is not rounded to zero."""
    assert formats.usd(amount) == text


def test_a_lower_bound_is_marked_and_unknown_is_not() -> None:
    """`≥` marks a known lower bound, never `unknown`."""
    assert formats.usd(2, at_least=True) == "≥ $2.00"
    assert formats.usd(None, at_least=True) == "unknown"


def test_shares_and_differences() -> None:
    """Shares and differences have one decimal, and differences always have a sign."""
    assert formats.percent(0.5) == "50.0 %"
    assert formats.points(0.083333) == "+8.3"
    assert formats.points(-0.5).endswith("50.0")
    assert formats.points(-0.5)[0] == "\N{MINUS SIGN}"
    assert formats.points(-1e-12) == "0.0"
    assert formats.points(0) == "0.0"
