"""The steps that derived arms share with others, and the savings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reports.format import count, percent, plural, some, usd
from reports.relations import read_rows
from reports.rendering.sections import Note, Row, Section, Table
from reports.types import Report

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

HEADER = (
    *("arm", "derives from", "attempts", "calls", "shared calls", "share"),
    *("credited", "saved by sharing", "billed"),
)


def answer(connection: DuckDBPyConnection, report: Report) -> Section | None:
    """Return the table of derived arms with footnotes, or None if there is no such arm."""
    names = {arm.name for arm in report.arms}
    rows = [row for row in read_rows(connection, "from marts.sharing") if row["arm"] in names]
    if not rows:
        return None
    summary = _summarise(rows)
    arms = some([f"{row['arm']} from {row['derived_from']}" for row in rows])
    note = (
        f"Derived arms share draws with others ({arms}): {summary} Costs are what each arm costs "
        "alone; only the bill has the amount paid."
    )
    return Section(
        "sharing",
        "Draws that derived arms share",
        summary,
        (Table("Derived arms", HEADER, tuple(map(_show, rows)), 2),),
        _FOOTNOTES,
        is_detail=True,
        notes=(Note("note", note),),
    )


def _summarise(rows: Sequence[Mapping[str, Any]]) -> str:
    calls, reused = (sum(row[name] for row in rows) for name in ("calls", "reused_calls"))
    savings = [row["reused_usd"] for row in rows if row["reused_usd"] is not None]
    is_bound = len(savings) < len(rows) or any(row["incomplete_cells"] for row in rows)
    saved = usd(sum(savings), is_bound) if savings else "an unknown amount"
    return (
        f"{count(reused)} of their {plural(calls, 'call')} were bought for another arm, which "
        f"saved {saved}."
    )


def _show(row: Mapping[str, Any]) -> Row:
    calls, reused, is_bound = row["calls"], row["reused_calls"], row["incomplete_cells"] > 0
    return (
        row["arm"],
        row["derived_from"],
        count(row["attempts"]),
        count(calls),
        count(reused),
        percent(reused / calls) if calls else "",
        usd(row["credited_usd"], is_bound),
        usd(row["reused_usd"], is_bound),
        usd(row["billed_usd"], row["unbilled_cells"] > 0),
    )


_FOOTNOTES = (
    "An attempt of a derived arm runs from its beginning. Where a step has the same inputs as in "
    "the attempt of its base at the same instance and repeat, it has the same result; everything "
    "else is done anew. Credited is the cost of the attempt alone, billed the amount paid.",
    "Tests of resolution stay exact: if the arms are alike, both are equally likely to resolve a "
    "cell alone, however much the two attempts share, and instances are "
    "independent of each other. Sharing makes fewer pairs differ, so differences are less random.",
    "The time of an attempt includes the shared steps, as measured in their own attempt.",
)
