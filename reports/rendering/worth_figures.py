"""Figures of the economic evaluation: the frontier and the acceptability curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from reports.economics import Acceptability, ArmWorth, Worth
from reports.format import listing, percent, usd
from reports.rendering.drawing import (
    INK,
    MUTED,
    PAPER,
    SERIES,
    Figure,
    arm_colour,
    draw_figure,
    marker,
    percent_axis,
    usd_axis,
)
from reports.rendering.worth import WORTH_NAMING, number_of
from reports.types import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 8
"""Up to this number of arms, all points have labels and intervals. Then only the frontier has."""

CURVES = 6
"""Maximum number of acceptability curves, those with the highest chances."""

SHORT = 16
"""Longest name that is a label. Arms with longer names are labelled by their number."""

_DASHES = ("-", "--", ":", "-.")
_TICKS_ALONE = 100
"""Below this ratio of the limits, powers of ten alone would give only one or two ticks."""


def draw_worth(report: Report) -> tuple[Figure, ...]:
    """Draw the frontier and the acceptability curves. Return no figure with fewer than two arms."""
    worth = report.worth
    if len(worth.arms) < 2:
        return ()
    curve = worth.acceptability
    return (_frontier(report), *((_acceptability(worth, curve),) if curve else ()))


def _frontier(report: Report) -> Figure:
    worth = report.worth
    labels = _labels(worth)
    told = [f"{arm.arm} {usd(arm.cost_usd)}, {percent(arm.rate)}" for arm in worth.frontier]
    numbers = number_of(worth)
    key = [f"{numbers[name]} {name}" for name, label in labels.items() if label != name]
    return draw_figure(
        "frontier",
        "The frontier of resolution against cost",
        "Up and to the left is better. Line: most that is resolved for at most this cost. Filled: "
        "on the frontier; hollow: dominated, also by extension."
        + (" Bars: 95 % Wilson intervals." if len(worth.arms) <= FEW else "")
        + (f" Numbers: {', '.join(key)}." if key else ""),
        f"Arms on the frontier by cost per instance and share resolved: {'; '.join(told)}.",
        3.1,
        lambda axes: _draw_frontier(axes, report, labels),
    )


def _labels(worth: Worth) -> dict[str, str]:
    """Return the labels of the points by arm: names if all of them are short, else numbers."""
    shown = worth.arms if len(worth.arms) <= FEW else worth.frontier
    if all(len(arm.arm) <= SHORT for arm in shown):
        return {arm.arm: arm.arm for arm in shown}
    numbers = number_of(worth)
    return {arm.arm: str(numbers[arm.arm]) for arm in shown}


def _draw_frontier(axes: Axes, report: Report, labels: dict[str, str]) -> None:
    worth = report.worth
    low, high = worth.arms[0].cost_usd, worth.arms[-1].cost_usd
    axes.set_xscale("log")
    axes.set_xlim(low / 1.6, high * 1.6)
    steps = [arm for arm in worth.arms if arm.standing != "dominated"]
    axes.plot(
        [*(arm.cost_usd for arm in steps), high * 1.6],
        [*(arm.rate for arm in steps), steps[-1].rate],
        drawstyle="steps-post",
        color=MUTED,
        linewidth=1.2,
        zorder=1,
    )
    for arm in worth.arms:
        if len(worth.arms) <= FEW:
            interval = report.arm(arm.arm).interval
            axes.plot(
                [arm.cost_usd] * 2, [interval.low, interval.high],
                color=arm_colour(arm.position), linewidth=1.6, alpha=0.4,
            )  # fmt: skip
        _point(axes, arm)
    percent_axis(axes.yaxis, axes.set_ylim)
    log_axis(axes)
    axes.grid(visible=True)
    axes.set_xlabel("mean cost per instance, USD")
    axes.set_ylabel("resolved")
    _place_labels(axes, _one_per_point([arm for arm in worth.arms if arm.arm in labels], labels))


def _point(axes: Axes, arm: ArmWorth) -> None:
    if arm.standing == "efficient":
        marker(axes, arm.cost_usd, arm.rate, arm.position)
    else:
        axes.plot(
            [arm.cost_usd], [arm.rate], "o", markersize=5, markerfacecolor=PAPER,
            markeredgecolor=arm_colour(arm.position), clip_on=False, zorder=2,
        )  # fmt: skip


def _one_per_point(arms: Sequence[ArmWorth], labels: dict[str, str]) -> list[tuple[ArmWorth, str]]:
    """Return one label for each point, with the number of further arms at the same point."""
    at: dict[tuple[float, float], list[ArmWorth]] = {}
    for arm in arms:
        at.setdefault((arm.cost_usd, arm.rate), []).append(arm)
    return [
        (first, labels[first.arm] + (f" (+{len(others)})" if others else ""))
        for first, *others in at.values()
    ]


def _place_labels(axes: Axes, points: Sequence[tuple[ArmWorth, str]]) -> None:
    """Write labels beside the points, on the side with more room, without overlap."""
    to_axes = (axes.transScale + axes.transLimits).transform
    placed: list[tuple[float, float, float]] = []
    for arm, label in sorted(points, key=lambda point: point[0].rate):
        x, y = to_axes((arm.cost_usd, arm.rate))
        is_right_of = x < 0.55
        width = 0.022 * len(label) + 0.03
        start = x + 0.025 if is_right_of else x - 0.025 - width
        height = float(y) + 0.05
        while any(
            abs(height - other) < 0.07 and start < end and start + width > begin
            for begin, end, other in placed
        ):
            height += 0.01
        placed.append((start, start + width, height))
        axes.text(
            x + (0.025 if is_right_of else -0.025), height, label, transform=axes.transAxes,
            ha="left" if is_right_of else "right", va="center", fontsize=9, zorder=4,
            in_layout=False,
        )  # fmt: skip


def _acceptability(worth: Worth, curve: Acceptability) -> Figure:
    ranked = sorted(curve.shares, key=lambda arm: -max(curve.shares[arm]))
    likely = [arm for arm in ranked if max(curve.shares[arm]) >= WORTH_NAMING][:CURVES]
    shown = [arm for arm in worth.arms if arm.arm in likely]
    best = list(dict.fromkeys(curve.frontier))

    def draw(axes: Axes) -> None:
        on_frontier = [curve.shares[arm][i] for i, arm in enumerate(curve.frontier)]
        axes.plot(curve.values, on_frontier, color=INK, linewidth=6, alpha=0.15)
        for arm in shown:
            arm_line(axes, curve.values, curve.shares[arm.arm], arm.position, arm.arm)
        if worth.willingness_to_pay is not None:
            axes.axvline(worth.willingness_to_pay, color=MUTED, linestyle="--", linewidth=1)
        axes.set_xscale("log")
        axes.set_xlim(curve.values[0], curve.values[-1])
        percent_axis(axes.yaxis, axes.set_ylim)
        log_axis(axes)
        axes.grid(visible=True)
        axes.set_xlabel("value of a resolved instance, USD")
        axes.set_ylabel("chance to be the best")
        axes.figure.legend(loc="outside lower left", ncols=1, fontsize=9)

    hidden = len(curve.shares) - len(shown)
    return draw_figure(
        "acceptability",
        "Acceptability curves",
        "Chance that no other arm has a higher net benefit, by the value of a resolved instance. "
        "Pale band: the arm with the highest mean."
        + (" Dashed vertical line: the declared value." if worth.willingness_to_pay else "")
        + (f" The {hidden} arms with the lowest chances are not drawn." if hidden else ""),
        f"With a rising value of a resolved instance, the best arm is {listing(best)}.",
        2.7 + 0.19 * len(shown),
        draw,
    )


def arm_line(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float],
    position: int,
    label: str,
    drawstyle: Literal["default", "steps-post"] = "default",
) -> None:
    """Draw the arm's line in its colour. Arms of the same colour differ by their dashes."""
    axes.plot(
        x, y, color=arm_colour(position), linestyle=_DASHES[position // SERIES % len(_DASHES)],
        linewidth=1.8, label=label, drawstyle=drawstyle,
    )  # fmt: skip


def log_axis(axes: Axes, *, is_usd: bool = True) -> None:
    """Label a logarithmic axis at round numbers, in dollars or as counts."""
    from matplotlib.ticker import LogLocator

    low, high = axes.get_xlim()
    subs = (1.0, 2.0, 5.0) if high / low < _TICKS_ALONE else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=7))
    usd_axis(axes)
    if not is_usd:
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
