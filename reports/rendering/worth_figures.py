"""Figures of the economic evaluation: the acceptability curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from reports.economics import Acceptability, Worth
from reports.format import listing
from reports.rendering.drawing import (
    INK,
    MUTED,
    SERIES,
    Figure,
    arm_colour,
    draw_figure,
    log_axis,
    percent_axis,
)
from reports.rendering.worth import WORTH_NAMING
from reports.types import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = 6
"""Maximum number of acceptability curves, those with the highest chances."""

_DASHES = ("-", "--", ":", "-.")


def draw_worth(report: Report) -> tuple[Figure, ...]:
    """Draw the acceptability curves. Return no figure with fewer than two arms."""
    worth = report.worth
    curve = worth.acceptability
    return (_acceptability(worth, curve),) if curve and len(worth.arms) > 1 else ()


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
