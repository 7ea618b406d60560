"""Bills of the arms, and their division by purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.format import (
    DASH,
    UNKNOWN,
    percent,
    usd,
)
from reports.losses import PURPOSES, Purpose, Spending
from reports.relations import read_rows

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
            incomplete_cells=row["incomplete_cells"],
            spent_usd=row["spent_usd"],
            unknown={purpose: row[f"{purpose}_unknown"] for purpose in PURPOSES},
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


def credited(spending: Spending) -> str:
    """Format the cost of the attempts that count."""
    if not spending.attempts:
        return DASH
    return usd(spending.credited_usd, at_least=spending.incomplete_cells > 0)


def part(spending: Spending, purpose: Purpose) -> str:
    """Format the USD of one part. What is known only in part is a lower bound, never $0."""
    if not spending.attempts:
        return DASH
    if spending.spent_usd is None:
        return UNKNOWN
    amount, is_bound = spending.parts[purpose], spending.unknown[purpose] > 0
    return UNKNOWN if is_bound and not amount else usd(amount, is_bound)


def share(spending: Spending, purpose: Purpose) -> str:
    """Format the share of a part in the spending. Return `""` if the share is unknown."""
    known = spending.share(purpose)
    is_unknown = spending.unknown_attempts or spending.unknown[purpose]
    return "" if known is None or is_unknown else percent(known)
