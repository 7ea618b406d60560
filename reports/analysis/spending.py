"""What arms were billed, and what that went into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.analysis.paired import read_rows
from reports.format import (
    DASH,
    UNKNOWN,
    percent,
    usd,
)
from reports.losses import PURPOSES, Purpose, Spending

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

WASTE: tuple[Purpose, ...] = ("no_verdict", "superseded", "lost", "unpriced")
"""What bought no verdict; whether a cell that is not resolved was wasted is for the reader."""


def read_spending(connection: DuckDBPyConnection) -> tuple[Spending, ...]:
    """Every declared arm, in declared order. `connection` has the marts."""
    return tuple(
        Spending(
            arm=row["arm"],
            attempts=row["attempts"],
            unbilled_attempts=row["unbilled_attempts"],
            unknown_attempts=row["unknown_attempts"],
            billed_usd=row["billed_usd"],
            credited_usd=row["credited_usd"],
            spent_usd=row["spent_usd"],
            parts={purpose: row[f"{purpose}_usd"] for purpose in PURPOSES},
        )
        for row in read_rows(connection, "from marts.spending")
    )


def billed(spending: Spending) -> str:
    """What an arm was billed; `unknown` where nobody says, a lower bound where not all do."""
    if not spending.attempts:
        return DASH
    return usd(spending.billed_usd, at_least=spending.unbilled_attempts > 0)


def part(spending: Spending, purpose: Purpose) -> str:
    """USD of one part; what was lost is unknown where nobody says what was billed."""
    if not spending.attempts:
        return DASH
    if spending.spent_usd is None or _is_untold(spending, purpose):
        return UNKNOWN
    return usd(spending.parts[purpose])


def share(spending: Spending, purpose: Purpose) -> str:
    """Share of what was spent; empty where there is none."""
    known = spending.share(purpose)
    return "" if known is None or _is_untold(spending, purpose) else percent(known)


def _is_untold(spending: Spending, purpose: Purpose) -> bool:
    """Whether a part can be known only from a bill, and there is none."""
    return purpose in ("lost", "unpriced") and spending.billed_usd is None
