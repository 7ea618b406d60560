"""Results by the order of the arms, by cut-off date, and without the cells a budget stopped."""

from __future__ import annotations

from collections.abc import Iterator

from reports.format import DASH, count, percent, usd
from reports.rendering.sections import Section, Table
from reports.statistics import wilson_interval
from reports.strata import BudgetStops, DateStratum, OrderStratum
from reports.types import Report

TITLE = "Results by order, by cut-off date, and without budget stops"


def strata_section(report: Report) -> Section | None:
    """Return tables and footnotes, or None if no order, cut-off date or budget stop is known."""
    tables = tuple(_tables(report))
    return Section("strata", TITLE, "", tables, tuple(_footnotes(report))) if tables else None


def _tables(report: Report) -> Iterator[Table]:
    if report.strata:
        header = ("arm", "began as number", "cells", "resolved", "rate", "cost / cell")
        rows = tuple(map(_by_order, report.strata))
        yield Table("Results by order of the arms", header, rows)
    if report.dates:
        names = (
            "arm",
            "model",
            "instances written",
            "instances",
            "resolved",
            "rate",
            "95 % interval",
        )
        yield Table(
            "Results by the cut-off date of the model", names, tuple(map(_by_date, report.dates)), 3
        )
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


def _by_date(one: DateStratum) -> tuple[str, ...]:
    share = one.resolved / one.cells
    interval = wilson_interval(share * one.instances, one.instances)
    return (
        one.arm,
        one.model,
        f"{'after' if one.is_after else 'until'} {one.cutoff:%Y-%m-%d}",
        count(one.instances),
        f"{count(one.resolved)} of {count(one.cells)}",
        percent(share),
        f"{percent(interval.low)} to {percent(interval.high)}",
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
    if report.dates:
        yield (
            "A model may have seen instances from before its cut-off date with their solutions. A "
            "lower rate after it is a sign of that and no proof: later instances may be harder. "
            "Instances of an unknown date are in no row. Intervals are Wilson's, with each "
            "instance as one trial."
        )
    if report.stops:
        yield (
            "Everywhere else, a cell that a budget stopped counts as not resolved. Without such "
            "cells, the rate says what the arm did where it could finish; cells that cost more are "
            "missing from it."
        )
