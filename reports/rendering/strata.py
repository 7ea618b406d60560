"""Results by the order of the arms, and without the cells that a budget stopped."""

from __future__ import annotations

from collections.abc import Iterator

from reports.format import DASH, count, percent, usd
from reports.rendering.sections import Section, Table
from reports.strata import BudgetStops, OrderStratum
from reports.types import Report

TITLE = "Results by order, and without budget stops"


def strata_section(report: Report) -> Section | None:
    """Return tables and footnotes, or None if neither an order nor a budget stop is known."""
    tables = tuple(_tables(report))
    return Section("strata", TITLE, "", tables, tuple(_footnotes(report))) if tables else None


def _tables(report: Report) -> Iterator[Table]:
    if report.strata:
        header = ("arm", "began as number", "cells", "resolved", "rate", "cost / cell")
        rows = tuple(map(_by_order, report.strata))
        yield Table("Results by order of the arms", header, rows)
    if report.stops:
        columns = ("arm", "stopped by a budget", "rate over all planned cells", "rate without them")
        yield Table("Results without budget stops", columns, tuple(map(_stopped, report.stops)))


def _by_order(one: OrderStratum) -> tuple[str, ...]:
    return (
        one.arm,
        str(one.order + 1),
        count(one.cells),
        count(one.resolved),
        percent(one.resolved / one.cells),
        usd(one.cost_per_cell),
    )


def _stopped(one: BudgetStops) -> tuple[str, ...]:
    return (
        one.arm,
        f"{count(one.stopped)} of {count(one.planned)}",
        percent(one.resolved / one.planned),
        DASH if one.rate is None else percent(one.rate),
    )


def _footnotes(report: Report) -> Iterator[str]:
    if report.strata:
        yield (
            "The arms begin each instance in a random order. If a provider drifts while an "
            "instance is run, rates or costs change with the position. The order is random, so "
            "this favours no arm."
        ) + (" Derived arms come after all others." if report.sharing else "")
    if report.stops:
        yield (
            "Everywhere else, a cell that a budget stopped counts as not resolved. Without such "
            "cells, the rate says what the arm did where it could finish; cells that cost more are "
            "missing from it."
        )
