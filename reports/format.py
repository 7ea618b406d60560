"""Number formats, the same in Markdown, page and figures."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from math import log10

from reports.estimates import Interval

UNKNOWN = "unknown"
DASH = "\N{EN DASH}"
"""Shown in place of an undefined number."""

NAMED_ARMS = 6
"""Maximum number of arms that a sentence names."""


def percent(share: float) -> str:
    """Format a share as a percentage with one decimal."""
    return f"{100 * share:.1f} %"


def percents(interval: Interval) -> str:
    """Format an interval of shares as percentages."""
    return f"{percent(interval.low)} to {percent(interval.high)}"


def points(difference: float) -> str:
    """Format a difference of shares in percentage points, signed unless it rounds to zero."""
    rounded = round(100 * difference, 1)
    return f"{rounded:+.1f}".replace("-", "\N{MINUS SIGN}") if rounded else "0.0"


def point_limits(interval: Interval) -> str:
    """Format an interval of differences of shares in percentage points."""
    return f"{points(interval.low)} to {points(interval.high)}"


def usd(amount: float | None, at_least: bool = False) -> str:
    """Format dollars: with cents from ten dollars up, with three significant digits below.

    An unknown amount is `unknown`, never zero. `at_least` marks a lower bound with `≥`.
    """
    if amount is None:
        return UNKNOWN
    if amount == 0:
        text = "$0"
    elif amount >= 9.995:
        text = f"${amount:,.2f}"
    else:
        text = f"${_significant(amount)}"
    return f"≥ {text}" if at_least else text


def usd_of_calls(costs: Iterable[float | None]) -> str:
    """Format the sum of the known costs of calls, and the number of calls of unknown price."""
    amounts = list(costs)
    priced = [cost for cost in amounts if cost is not None]
    unknown = len(amounts) - len(priced)
    parts = [f"${sum(priced):,.4f}"] if priced or not unknown else []
    if unknown:
        parts.append(f"{plural(unknown, 'call')} of unknown price")
    return " and ".join(parts)


def p_value(value: float) -> str:
    """Format a p-value with three significant digits."""
    return f"{value:#.3g}"


def ratio(value: float | None) -> str:
    """Format a factor with three significant digits, or as a dash if it is undefined."""
    if value is None:
        return DASH
    return f"{_significant(value) if value else 0}\N{MULTIPLICATION SIGN}"


def mean(value: float | None, unit: str = "") -> str:
    """Format a mean with one decimal, or as a dash if there is none."""
    return DASH if value is None else f"{value:,.1f}{unit}"


def count(number: int) -> str:
    """Format an integer with thousands separators."""
    return f"{number:,}"


def of(text: str, cells: int, planned: int) -> str:
    """Add the number of cells behind a mean if that is not the number of planned cells."""
    return f"{text} (of {count(cells)})" if 0 < cells < planned else text


def total(number: int | None, at_least: bool = False) -> str:
    """Format a sum with thousands separators.

    An unknown sum is `unknown`, never zero. `at_least` marks a lower bound with `≥`.
    """
    if number is None:
        return UNKNOWN
    return f"≥ {number:,}" if at_least else count(number)


def plural(number: int, noun: str, several: str = "") -> str:
    """Format a number with its noun in singular or plural, which is by default with an s."""
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def moment(time: datetime) -> str:
    """Format a UTC time to the minute."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def listing(words: list[str]) -> str:
    """Join words as in a sentence."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def some(texts: Sequence[str], separator: str = ", ") -> str:
    """Join texts, one for each arm. Of many, join the first ones and count the rest."""
    if len(texts) <= NAMED_ARMS:
        return separator.join(texts)
    rest = f"{count(len(texts) - NAMED_ARMS)} more"
    return separator.join([*texts[:NAMED_ARMS], rest])


def some_names(names: Iterable[str]) -> str:
    """Join names of arms as in a sentence. Of many, name the first ones and count the rest."""
    words = list(names)
    if len(words) > NAMED_ARMS:
        words[NAMED_ARMS:] = [f"{count(len(words) - NAMED_ARMS)} more"]
    return listing(words)


def round_values(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten between two positive limits."""
    powers = range(int(log10(low)) - 1, int(log10(high)) + 2)
    values = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    return [value for value in values if low <= value <= high]


def _significant(value: float) -> str:
    """Format with three significant digits in plain notation, however small the number."""
    digits = f"{value:.2e}"
    exponent = int(digits.partition("e")[2])
    return f"{float(digits):,.{max(0, 2 - exponent)}f}"
