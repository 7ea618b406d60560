"""Figures of calls and of costs by verdict, as boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reports.breakdowns import Spread
from reports.format import usd
from reports.rendering.drawing import (
    INK,
    Figure,
    arm_colour,
    arm_rows,
    band_of,
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
        "The box spans the middle half, its line is the median, and the lines end at the least and "
        "the most.",
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
        "Above and filled: resolved. Below and open: not resolved. Boxes as on the left.",
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
    for row, (arm, spreads) in enumerate(rows):
        colour, height = arm_colour(position[arm]), band / len(spreads)
        for place, spread in enumerate(spreads):
            middle = row + height * (place - (len(spreads) - 1) / 2)
            _box(axes, spread, middle, 0.8 * height, colour)
    arm_rows(axes, names)


def _box(axes: Axes, spread: Spread, middle: float, height: float, colour: str) -> None:
    is_filled = spread.verdict != "unresolved"
    line = {"color": INK, "linewidth": 1.0}
    axes.bxp(
        [
            {
                "med": spread.median,
                "q1": spread.lower_quartile,
                "q3": spread.upper_quartile,
                "whislo": spread.least,
                "whishi": spread.most,
                "fliers": [],
            }
        ],
        positions=[middle],
        widths=height,
        orientation="horizontal",
        showcaps=False,
        patch_artist=True,
        manage_ticks=False,
        boxprops={
            "facecolor": colour if is_filled else "none",
            "edgecolor": colour,
            "alpha": 0.75 if is_filled else 1.0,
        },
        medianprops={**line, "linewidth": 2},
        whiskerprops={"color": colour, "linewidth": 1.0},
    )
