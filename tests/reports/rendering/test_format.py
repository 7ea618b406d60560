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


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1.00"), (0.25, "0.250"), (0.04091, "0.0409"), (1.2345e-6, "1.23e-06")]
)
def test_p_values_have_three_significant_digits(value: float, text: str) -> None:
    """P-values have three significant digits, including trailing zeros."""
    assert formats.p_value(value) == text


def test_shares_and_differences() -> None:
    """Shares and differences have one decimal, and differences always have a sign."""
    assert formats.percent(0.5) == "50.0 %"
    assert formats.points(0.083333) == "+8.3"
    assert formats.points(-0.5).endswith("50.0")
    assert formats.points(-0.5)[0] == "\N{MINUS SIGN}"
    assert formats.points(-1e-12) == "0.0"
    assert formats.points(0) == "0.0"


def test_ratios_keep_three_digits_and_undefined_is_a_dash() -> None:
    """Ratios have three digits. A ratio to zero is undefined and shown as a dash."""
    assert formats.ratio(2.7182).startswith("2.72")
    assert formats.ratio(0).startswith("0")
    assert formats.ratio(None) == "\N{EN DASH}"


def test_words_join_as_in_a_sentence() -> None:
    """Items are joined with commas, and the last one with `and`."""
    assert formats.listing(["a"]) == "a"
    assert formats.listing(["a", "b", "c"]) == "a, b and c"
    assert formats.plural(1, "cell") == "1 cell"
    assert formats.plural(1200, "cell") == "1,200 cells"
