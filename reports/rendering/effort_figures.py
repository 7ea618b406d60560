"""Figures of calls and of costs by verdict, as boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reports.breakdowns import Spread
from reports.format import usd
from reports.rendering.drawing import (
    Box,
    Figure,
    arm_colour,
    arm_rows,
    band_of,
    boxes,
    draw_figure,
    height_of,
    log_or_linear,
    usd_axis,
)
from reports.rendering.order import positions, ranked
from reports.types import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Row = tuple[str, tuple[Spread, ...]]
"""An arm with the distributions that share its row."""


BOXES = (
    "The box spans the middle half, its line is the median, and the thin lines end at the least "
    "and the most."
)
"""Legend of a box."""


def draw_effort(report: Report) -> tuple[Figure, ...]:
    """Draw calls of an attempt, and costs of resolved and unresolved ones, where known."""
    calls = _rows(report, "calls", ("all",))
    costs = _rows(report, "cost", ("resolved", "unresolved"))
    figures = []
    if calls:
        figures.append(_calls(report, calls))
    if costs:
        figures.append(_costs(report, costs))
    return tuple(figures)


def _rows(report: Report, amount: Any, verdicts: Sequence[Any]) -> list[_Row]:
    found = (
        (arm.name, tuple(filter(None, (_spread(report, arm.name, amount, v) for v in verdicts))))
        for arm in ranked(report)
    )
    return [(arm, spreads) for arm, spreads in found if any(each.most for each in spreads)]


def _spread(report: Report, arm: str, amount: Any, verdict: Any) -> Spread | None:
    return report.breakdowns.spread(arm, amount, verdict)


def _calls(report: Report, rows: list[_Row]) -> Figure:
    def draw(axes: Axes) -> None:
        _boxes(axes, report, rows)
        axes.set_xlim(left=0)
        axes.set_xlabel("model calls of one attempt")

    told = [
        f"{arm} {one.median:,.0f} ({one.least:,.0f} to {one.most:,.0f})" for arm, (one,) in rows
    ]
    return draw_figure(
        "calls",
        "Turns of an attempt",
        BOXES,
        "Calls of an attempt, median and range: " + "; ".join(told) + ".",
        height_of([arm for arm, _ in rows]),
        draw,
    )


def _costs(report: Report, rows: list[_Row]) -> Figure:
    def draw(axes: Axes) -> None:
        _boxes(axes, report, rows)
        ends = [end for _, spreads in rows for one in spreads for end in (one.least, one.most)]
        log_or_linear(axes, ends)
        usd_axis(axes)
        axes.set_xlabel("cost of one attempt, USD")

    told = [f"{arm} {', '.join(map(_in_words, spreads))}" for arm, spreads in rows]
    return draw_figure(
        "cost-by-verdict",
        "Cost of resolved and of other attempts",
        "Above and filled: resolved. Below and open: not resolved. " + BOXES,
        "Median cost of an attempt: " + "; ".join(told) + ".",
        height_of([arm for arm, _ in rows], 1.25),
        draw,
    )


def _in_words(spread: Spread) -> str:
    return f"{usd(spread.median)} {spread.verdict}"


def _boxes(axes: Axes, report: Report, rows: list[_Row]) -> None:
    """Draw one row per arm, with its distributions below each other."""
    names, position = [arm for arm, _ in rows], positions(report)
    band = band_of(names)
    shown = []
    for row, (arm, spreads) in enumerate(rows):
        height = band / len(spreads)
        for place, spread in enumerate(spreads):
            middle = row + height * (place - (len(spreads) - 1) / 2)
            is_filled = spread.verdict != "unresolved"
            shown.append(
                Box(
                    middle, spread.least, spread.lower_quartile, spread.median,
                    spread.upper_quartile, spread.most, arm_colour(position[arm]), is_filled,
                )
            )  # fmt: skip
    boxes(axes, shown, 0.8 * band / max(len(spreads) for _, spreads in rows))
    arm_rows(axes, names)
