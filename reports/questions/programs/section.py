"""The programs of command arms: what they state, what was metered, and how they resumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reports.format import DASH, UNKNOWN, mean, of, total, usd
from reports.relations import read_rows
from reports.rendering.sections import Row, Section, Table
from reports.types import Report

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

HEADER = (
    *("arm", "version", "recipe", "claimed", "metered", "first request"),
    *("restarts", "from the record", "not used again"),
)

_NOTE = (
    "The version and the claimed cost are stated by the program. The recipe is the beginning of "
    "its digest. The metered cost is of the attempts that claim one, with their number unless all "
    "do. First request is the median time from the start of the program to its first model "
    "request. A program that is started again has answers from the record. An equivalent request "
    "differs from its record in durations, order or other values that are not compared. Answers "
    "not used again were bought by an earlier run and answer no request of the last one, which may "
    "have bought others in their place."
)


def answer(connection: DuckDBPyConnection, report: Report) -> Section | None:
    """Return the table of programs by arm, or None if no arm runs one."""
    names = {arm.name for arm in report.arms}
    rows = [row for row in read_rows(connection, "from marts.programs") if row["arm"] in names]
    if not rows:
        return None
    tables = [Table("", HEADER, tuple(map(_show, rows)), 3, note=_NOTE)]
    different = [(row["arm"], row["first_difference"]) for row in rows if row["first_difference"]]
    if different:
        header = ("arm", "first difference of an answer not used again")
        tables.append(Table("", header, tuple(different), 2))
    return Section("programs", "How did the programs run?", tables=tuple(tables), is_detail=True)


def _show(row: Mapping[str, Any]) -> Row:
    has_claims = row["claims"] > 0
    return (
        row["arm"],
        row["versions"] or UNKNOWN,
        row["recipes"] or UNKNOWN,
        of(usd(row["claimed_usd"]), row["claims"], row["attempts"]) if has_claims else DASH,
        usd(row["metered_usd"], row["incomplete_cells"] > 0) if has_claims else DASH,
        mean(row["first_request_s"], " s"),
        total(row["restarts"]),
        _show_repeated(row),
        total(row["unused_calls"]),
    )


def _show_repeated(row: Mapping[str, Any]) -> str:
    repeated = total(row["answered_from_record"])
    return f"{repeated} ({row['loosened_calls']} equivalent)" if row["loosened_calls"] else repeated
