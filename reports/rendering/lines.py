"""Numbers with their intervals and methods, formatted for a reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isinf

from reports.estimates import Estimate, Interval
from reports.format import DASH, usd

UNLIMITED = "unlimited"
"""Shown in place of an infinite limit."""

BY_INSTANCE = "bootstrap by instance"
BY_REPOSITORY = "bootstrap by repository"
BOOTSTRAP_T = "bootstrap-t by instance"

Show = Callable[[float], str]


@dataclass(frozen=True)
class Line:
    """One number, formatted for a reader."""

    name: str
    value: str
    interval: str
    """Two-sided 95 % interval, or a dash if there is none."""
    over: str
    """Data that the number is computed from."""
    method: str


@dataclass(frozen=True)
class Group:
    """Lines that belong together."""

    title: str
    lines: tuple[Line, ...]


def estimate_line(
    name: str, estimate: Estimate | None, show: Show, over: str, method: str = BY_INSTANCE
) -> Line:
    """Return an estimate with its interval as a line, with dashes if there is none."""
    if estimate is None:
        return Line(name, DASH, DASH, over, method)
    return Line(name, show(estimate.value), interval_text(estimate.interval, show), over, method)


def interval_text(interval: Interval, show: Show) -> str:
    """Format both limits, or one word if both are infinite."""
    if isinf(interval.low) and isinf(interval.high):
        return UNLIMITED
    limits = (UNLIMITED if isinf(limit) else show(limit) for limit in (interval.low, interval.high))
    return " to ".join(limits)


def signed(difference: float, show: Show) -> str:
    """Format with the sign before the unit. Zero, up to rounding errors, has no sign."""
    rounded = round(difference, 9)
    sign = "+" if rounded > 0 else "\N{MINUS SIGN}" if rounded < 0 else ""
    return f"{sign}{show(abs(rounded))}"


def signed_usd(amount: float) -> str:
    """Format a net benefit, with a sign if it is below zero."""
    return usd(amount) if amount >= 0 else f"\N{MINUS SIGN}{usd(-amount)}"
