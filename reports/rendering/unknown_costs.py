"""Numbers of cost with unknown costs replaced by the mean or the maximum, and their bounds."""

from __future__ import annotations

from collections.abc import Iterator

from reports.format import DASH, count, plural, ratio, usd
from reports.rendering.lines import Group, Line, Show, interval_text, signed, signed_usd
from reports.sections import Row, Table
from reports.types import Report, Resampled
from reports.unknown_costs import CERTAINTIES, ArmUnknowns, Imputed, PairUnknowns

REPLACED = (
    "Unknown costs: each cost that is not fully known is put at the mean or at the maximum of "
    "those of its arm that are. Bounds: each is between its known part and this maximum, in both "
    "arms alike or not. They hold if no unknown cost is above the highest known one (Little and "
    "Rubin 2019; Manski 2003)."
)
"""The method, for a reader."""


def with_unknown_costs(resampled: Resampled) -> Iterator[Group]:
    """Yield the costs of the leading pair with unknown ones replaced, if there are any."""
    if resampled.unknown_costs:
        lines = tuple(_lines(resampled, resampled.unknown_costs))
        yield Group("Costs with unknown ones replaced", lines)


def _lines(resampled: Resampled, unknown: PairUnknowns) -> Iterator[Line]:
    over = f"{plural(unknown.pairs, 'pair')} that ran, {plural(unknown.cells, 'unknown cost')}"
    shown: tuple[tuple[str, Imputed | None, Show], ...] = (
        ("cost, ratio", unknown.ratio, ratio),
        ("cost, difference per cell", unknown.difference, lambda value: signed(value, usd)),
        (f"per resolved cell, {resampled.baseline}", unknown.baseline_per_resolved, usd),
        (f"per resolved cell, {resampled.candidate}", unknown.candidate_per_resolved, usd),
        ("per resolved cell, ratio", unknown.ratio_per_resolved, ratio),
    )
    for name, imputed, show in shown:
        if imputed is None:
            continue
        yield Line(
            f"{name}, unknown ones at the mean", show(imputed.at_mean), DASH, over, "imputed"
        )
        yield Line(
            f"{name}, unknown ones at the maximum", show(imputed.at_maximum), DASH, over, "imputed"
        )
        bounds = interval_text(imputed.bounds, show)
        yield Line(f"{name}, unknown ones from least to maximum", bounds, DASH, over, "bounds")


def unknown_costs_table(report: Report) -> Table | None:
    """Return the costs of each arm with unknown ones replaced, or None if nothing is unknown."""
    if not report.unknown_costs:
        return None
    header: Row = (
        "arm", "place", "unknown costs", "cost / instance, at the mean", "at the maximum",
        "bounds", "cost / resolved, at the mean", "at the maximum", "bounds",
    )  # fmt: skip
    value = report.worth.willingness_to_pay
    if value is not None:
        header += (f"net benefit at {usd(value)}, bounds",)
    rows = tuple(_row(report, one, value) for one in report.unknown_costs)
    return Table("Arms with unknown costs, and how far these could move them", header, rows, 2)


def _row(report: Report, one: ArmUnknowns, value: float | None) -> Row:
    row = (
        one.arm,
        DASH if one.place is None else CERTAINTIES[one.place],
        f"{count(one.cells)} of {count(one.ran)}",
        *_three(one.per_cell),
        *(_three(one.per_resolved) if one.per_resolved else (DASH,) * 3),
    )
    if value is None:
        return row
    worth = value * report.arm(one.arm).rate
    bounds = one.per_cell.bounds
    return (*row, f"{signed_usd(worth - bounds.high)} to {signed_usd(worth - bounds.low)}")


def _three(imputed: Imputed) -> Row:
    return (
        usd(imputed.at_mean),
        usd(imputed.at_maximum),
        interval_text(imputed.bounds, usd),
    )
