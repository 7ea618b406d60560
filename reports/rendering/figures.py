"""The figures of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reports.analysis.breakdowns import dots_of
from reports.breakdowns import CostSpread
from reports.format import percent, some, usd
from reports.losses import PURPOSES, Purpose, Spending
from reports.rendering.drawing import (
    INK,
    MUTED,
    PAPER,
    Box,
    Figure,
    arm_colour,
    arm_rows,
    band_of,
    boxes,
    draw_figure,
    height_of,
    log_or_linear,
    marker,
    percent_axis,
    row_transform,
    usd_axis,
)
from reports.rendering.order import positions, ranked
from reports.types import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

_LABELLED = 0.12
"""Minimum width of a part of a bar that has room for its share."""

_PLAIN: tuple[Purpose, ...] = ("resolved", "unresolved")

_HATCHES: Mapping[Purpose, str] = {
    "no_verdict": "////",
    "superseded": "....",
    "lost": "xxxx",
    "unpriced": "||||",
}


def draw_resolution(report: Report) -> tuple[Figure, ...]:
    """Draw the figure on resolution by arm."""
    return (_resolution(report),)


def draw_cost(report: Report) -> tuple[Figure, ...]:
    """Draw the distribution of cost. Return no figure if no arm has a known cost."""
    if not any(arm.cost.usd for arm in report.arms):
        return ()
    return (_cost_spread(report),)


def draw_spending(report: Report) -> tuple[Figure, ...]:
    """Draw the spending by purpose and arm. Return no figure if nothing was spent."""
    spent = [spending.arm for spending in report.spending if spending.spent_usd]
    return (_spending(report),) if spent else ()


def _resolution(report: Report) -> Figure:
    arms, position = ranked(report), positions(report)
    names = [arm.name for arm in arms]

    def draw(axes: Axes) -> None:
        colours = [arm_colour(position[name]) for name in names]
        low, high = [arm.interval.low for arm in arms], [arm.interval.high for arm in arms]
        axes.hlines(range(len(arms)), low, high, colors=colours, linewidth=2, alpha=0.55)
        for row, arm in enumerate(arms):
            marker(axes, arm.rate, row, position[arm.name])
            axes.text(1.05, row, percent(arm.rate), va="center", transform=row_transform(axes))
        arm_rows(axes, names)
        percent_axis(axes.xaxis, axes.set_xlim)
        axes.set_xlabel("planned cells resolved, with 95 % Wilson interval")

    told = [
        f"{arm.name} {percent(arm.rate)} ({percent(arm.interval.low)} to "
        f"{percent(arm.interval.high)})"
        for arm in arms
    ]
    return draw_figure(
        "resolution",
        "Resolution by arm",
        "Arms by rate, best first. Every planned cell is in the denominator. Overlapping intervals "
        "do not mean that the arms are equal: the paired table compares them cell by cell.",
        "Share of planned cells resolved: " + "; ".join(told) + ".",
        height_of(names),
        draw,
    )


def _cost_spread(report: Report) -> Figure:
    paid = {one.arm: one for one in report.breakdowns.costs}
    costs = [paid[arm.name] for arm in ranked(report) if arm.name in paid]
    left_out = [arm.name for arm in ranked(report) if arm.name not in paid]
    names, position = [one.arm for one in costs], positions(report)
    most, dots = max(one.cells for one in costs), dots_of(len(names))
    shown = "One dot per cell that ran" if most <= dots else f"At most {dots} dots an arm"
    without = f" Not drawn, without a known cost: {some(left_out)}." if left_out else ""

    def draw(axes: Axes) -> None:
        for row, one in enumerate(costs):
            _strip(axes, row, one.dots, arm_colour(position[one.arm]), band_of(names))
        boxes(axes, _cost_boxes(report, names), band_of(names))
        arm_rows(axes, names)
        usd_axis(axes)
        log_or_linear(axes, [end for one in costs for end in (one.least, one.most)])
        axes.grid(visible=True, axis="x")
        axes.set_xlabel("cost of one attempt, USD")

    return draw_figure(
        "cost-spread",
        "Distribution of cost per cell",
        f"{shown}; the box spans the middle half, its line is the median." + without,
        "Cost of single attempts: " + "; ".join(f"{one.arm} {_spread(one)}" for one in costs) + ".",
        height_of(names, 1.5),
        draw,
    )


def _cost_boxes(report: Report, names: Sequence[str]) -> list[Box]:
    """Return open boxes of the arms in whose cells at least five costs are fully known."""
    found = ((row, report.breakdowns.spread(arm, "cost", "all")) for row, arm in enumerate(names))
    return [
        Box(
            row, one.least, one.lower_quartile, one.median, one.upper_quartile, one.most, INK,
            is_filled=False,
        )
        for row, one in found
        if one and one.cells >= 5
    ]  # fmt: skip


def _spending(report: Report) -> Figure:
    position = positions(report)
    by_arm = {spending.arm: spending for spending in report.spending}
    spent = [by_arm[arm.name] for arm in ranked(report) if by_arm[arm.name].spent_usd]
    names = [spending.arm for spending in spent]
    left_out = [arm.name for arm in ranked(report) if arm.name not in names]
    without = f" Not drawn, as nothing is known to be spent: {some(left_out)}." if left_out else ""

    def draw(axes: Axes) -> None:
        for row, spending in enumerate(spent):
            _stack(axes, row, spending, arm_colour(position[spending.arm]), band_of(names))
            total = usd(spending.spent_usd, spending.unknown_attempts > 0)
            axes.text(1.05, row, total, va="center", transform=row_transform(axes))
        arm_rows(axes, names)
        percent_axis(axes.xaxis, axes.set_xlim)
        axes.set_xlabel("share of what was spent")
        axes.figure.legend(
            handles=[_purpose_key(purpose) for purpose in _occurring(report)],
            loc="outside lower left", ncols=2, fontsize=9,
        )  # fmt: skip

    told = [
        f"{spending.arm} "
        + ", ".join(
            f"{PURPOSES[purpose]} {percent(spending.share(purpose) or 0)}"
            for purpose, amount in spending.parts.items()
            if amount
        )
        for spending in spent
    ]
    return draw_figure(
        "spending",
        "Spending by purpose",
        "Solid: spent on resolved cells. To the right of each bar: the total." + without,
        "Share of what was spent: " + "; ".join(told) + ".",
        height_of(names) + 0.55,
        draw,
    )


def _occurring(report: Report) -> list[Purpose]:
    return [purpose for purpose in PURPOSES if any(one.parts[purpose] for one in report.spending)]


def _stack(axes: Axes, row: int, spending: Spending, colour: str, height: float) -> None:
    start = 0.0
    for purpose in PURPOSES:
        width = spending.share(purpose) or 0.0
        if width:
            axes.barh(row, width, left=start, height=height, **_pattern(purpose, colour))
        if width >= _LABELLED and purpose in _PLAIN:
            ink = PAPER if purpose == "resolved" else INK
            middle = start + width / 2
            axes.text(middle, row, percent(width), ha="center", va="center", color=ink, fontsize=9)
        start += width


def _purpose_key(purpose: Purpose) -> Patch:
    from matplotlib.patches import Patch

    return Patch(label=PURPOSES[purpose], **_pattern(purpose, MUTED))


def _pattern(purpose: Purpose, colour: str) -> dict[str, Any]:
    """Return the fill style of a purpose. Purposes differ by fill, as the colour is the arm's."""
    if purpose in _PLAIN:
        alpha = 1.0 if purpose == "resolved" else 0.35
        return {"facecolor": colour, "alpha": alpha, "linewidth": 0}
    return {
        "facecolor": PAPER,
        "edgecolor": colour,
        "hatch": _HATCHES[purpose],
        "linewidth": 0.8,
    }


def _spread(costs: CostSpread) -> str:
    return f"from {usd(costs.least)} over {usd(costs.middle)} in the middle to {usd(costs.most)}"


def _strip(axes: Axes, row: int, dots: Sequence[float], colour: str, height: float) -> None:
    """Draw dots with a fixed jitter."""
    jitter = [row + 0.43 * height * (2 * ((i * 0.618034) % 1) - 1) for i in range(len(dots))]
    axes.scatter(
        dots,
        jitter,
        s=max(4.0, min(22.0, 900 / len(dots))),
        color=colour,
        alpha=0.75 if len(dots) < 60 else 0.45,
        linewidths=0,
    )
