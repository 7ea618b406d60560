"""Results by the order of the arms, by cut-off date, and without the cells a budget stopped."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from reports.errors import ReportError
from reports.format import DASH, count, percent, percents, usd
from reports.relations import read_rows
from reports.rendering.sections import Section, Table
from reports.statistics.proportions import wilson_interval
from reports.types import Report

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def answer(connection: DuckDBPyConnection, report: Report) -> Section | None:
    """Return tables and footnotes, or None if no order, cut-off date or budget stop is known.

    Raises:
        ReportError: a cut-off date names a model of no arm.
    """
    parts = [_split_by_order(connection, report), _split_by_date(connection, report)]
    parts = [(table, text) for table, text in (*parts, _leave_out_stops(connection)) if table.rows]
    if not parts:
        return None
    tables, footnotes = zip(*parts, strict=True)
    title = "Results by order, by cut-off date, and without budget stops"
    return Section("strata", title, "", tables, footnotes, is_detail=True)


Part = tuple[Table, str]
"""A table and its footnote."""


def _split_by_order(connection: DuckDBPyConnection, report: Report) -> Part:
    rows = tuple(
        (
            row["arm"],
            str(row["order_in_instance"] + 1),
            count(row["cells"]),
            count(row["resolved"]),
            percent(row["resolved"] / row["cells"]),
            usd(row["cost_usd"] / row["priced_cells"] if row["priced_cells"] else None),
        )
        for row in read_rows(connection, "from marts.order_strata")
    )
    header = ("arm", "started as number", "cells", "resolved", "rate", "cost / cell")
    footnote = (
        "The arms start each instance in a random order. If a provider drifts while an instance is "
        "run, rates or costs change with the position. The order is random, so this favours no arm."
    )
    if any(arm.derived_from for arm in report.arms):
        footnote += " Derived arms come after all others."
    return Table("Results by order of the arms", header, rows), footnote


def _split_by_date(connection: DuckDBPyConnection, report: Report) -> Part:
    """Compare instances from before and after the cut-off dates; undated ones are in no row."""
    header = (
        *("arm", "model", "instances written", "instances", "resolved", "rate", "95 % interval"),
    )
    footnote = (
        "A model may have seen instances from before its cut-off date with their solutions. A "
        "lower rate after it is a sign of that and no proof: later instances may be harder. "
        "Instances of an unknown date are in no row. Intervals are Wilson's, with each "
        "instance as one trial."
    )
    rows, cutoffs = read_rows(connection, "from marts.instance_dates"), report.cutoffs
    models = {row["model"] for row in rows}
    if unknown := cutoffs.keys() - models:
        names = ", ".join(sorted(models))
        raise ReportError(f"no arm has the model {sorted(unknown)[0]!r}; the models are {names}")
    sums: dict[tuple[str, str, bool], Counter[str]] = {}
    for row in rows:
        if row["model"] in cutoffs and row["instance_date"] is not None:
            key = row["arm"], row["model"], row["instance_date"] > cutoffs[row["model"]]
            numbers = {name: row[name] for name in ("instances", "cells", "resolved")}
            sums.setdefault(key, Counter()).update(numbers)
    table = []
    for (arm, model, is_after), numbers in sums.items():
        instances, cells, resolved = (numbers[n] for n in ("instances", "cells", "resolved"))
        table.append(
            (
                *(arm, model, f"{'after' if is_after else 'until'} {cutoffs[model]:%Y-%m-%d}"),
                count(instances),
                f"{count(resolved)} of {count(cells)}",
                percent(resolved / cells),
                percents(wilson_interval(resolved / cells * instances, instances)),
            )
        )
    caption = "Results by the cut-off date of the model"
    return Table(caption, header, tuple(table), 3), footnote


def _leave_out_stops(connection: DuckDBPyConnection) -> Part:
    rows = tuple(
        (
            row["arm"],
            f"{count(row['stopped'])} of {count(row['planned'])}",
            percent(row["resolved"] / row["planned"]),
            percent(row["resolved"] / others)
            if (others := row["planned"] - row["stopped"])
            else DASH,
        )
        for row in read_rows(connection, "from marts.budget_stops")
    )
    header = ("arm", "stopped by a budget", "rate over all planned cells", "rate without them")
    footnote = (
        "Everywhere else, a cell that a budget stopped counts as not resolved. Without such cells, "
        "the rate describes the cells that the arm could finish; cells that cost more are missing "
        "from it."
    )
    return Table("Results without budget stops", header, rows), footnote
