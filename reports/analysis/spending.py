"""Bills of the arms, and their division by purpose."""

from __future__ import annotations

from collections.abc import Sequence
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
"""Purposes that bought no verdict. Unresolved cells are not counted as waste: the reader judges."""


def read_spending(connection: DuckDBPyConnection) -> tuple[Spending, ...]:
    """Read the spending of all declared arms, in declared order. `connection` has the marts."""
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


def nothing_spent(spendings: Sequence[Spending]) -> str | None:
    """Return one line that says so if no arm spent anything that is known, otherwise None."""
    if any(spending.spent_usd for spending in spendings):
        return None
    if any(spending.unknown_attempts for spending in spendings):
        return "No bill and no cost is known, so nothing is divided by purpose."
    return "Nothing was spent."


def billed(spending: Spending) -> str:
    """Format an arm's bill: `unknown` if no attempt has one, a lower bound if only some have."""
    if not spending.attempts:
        return DASH
    return usd(spending.billed_usd, at_least=spending.unbilled_attempts > 0)


def part(spending: Spending, purpose: Purpose) -> str:
    """Format the USD of one part. Without a bill, lost and unpriced calls are unknown."""
    if not spending.attempts:
        return DASH
    if spending.spent_usd is None or _is_untold(spending, purpose):
        return UNKNOWN
    return usd(spending.parts[purpose])


def share(spending: Spending, purpose: Purpose) -> str:
    """Format the share of a part in the spending. Return `""` if the share is unknown."""
    known = spending.share(purpose)
    return "" if known is None or _is_untold(spending, purpose) else percent(known)


def _is_untold(spending: Spending, purpose: Purpose) -> bool:
    """Return True if only a bill could tell the part and there is no bill."""
    return purpose in ("lost", "unpriced") and spending.billed_usd is None
