"""The matrix of all pairs of arms as a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from reports.format import plural
from reports.rendering.drawing import MUTED, PAPER, RULE, Figure, arm_colour, draw_figure
from reports.rendering.turning import LEVEL
from reports.types import Comparison, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 25
"""Up to this number of arms, each row has a label, and the caption has the names."""

SHORT = 16
"""Longest name that is a label. Otherwise the labels are places by resolution."""

_COLOUR = arm_colour(0)
_FILLS: dict[str, dict[str, Any]] = {
    "Holm": {"facecolor": _COLOUR, "alpha": 0.9},
    "BH": {"facecolor": _COLOUR, "alpha": 0.4},
    "none": {"facecolor": RULE, "alpha": 0.45},
}
"""Fill by the strictest correction after which a pair differs."""

_KEYS = {
    "Holm": f"differ by Holm (p < {LEVEL:g})",
    "BH": "differ by Benjamini and Hochberg only",
    "none": "not distinguishable",
}


def draw_pairs(report: Report) -> tuple[Figure, ...]:
    """Draw the matrix of all pairs. Return no figure with fewer than three arms."""
    searched = [pair for pair in report.comparisons if pair.holm_p_value is not None]
    compared = {name for pair in searched for name in (pair.baseline, pair.candidate)}
    arms = sorted((arm for arm in report.arms if arm.name in compared), key=lambda arm: -arm.rate)
    names = [arm.name for arm in arms]
    if len(names) < 3:
        return ()
    classes = {frozenset((pair.baseline, pair.candidate)): _class(pair) for pair in searched}
    is_named = len(names) <= NAMED and all(len(name) <= SHORT for name in names)
    key = (
        ""
        if is_named or len(names) > NAMED
        else ", ".join(f"{place} {name}" for place, name in enumerate(names, start=1))
    )
    differing = sum(kind != "none" for kind in classes.values())
    return (
        draw_figure(
            "pairs",
            "Differences between arms",
            "Arms by resolution, the best first: the arm of the column resolves at least as much "
            "as the arm of the row. Exploratory, unless the pair was declared."
            + (f" Places: {key}." if key else ""),
            f"{plural(differing, 'pair')} of {len(classes)} differ after correction.",
            3.6,
            lambda axes: _draw(axes, names, classes, is_named=is_named),
        ),
    )


def _class(pair: Comparison) -> str:
    if pair.holm_p_value is not None and pair.holm_p_value < LEVEL:
        return "Holm"
    discovery = pair.false_discovery_p_value
    return "BH" if discovery is not None and discovery < LEVEL else "none"


def _draw(
    axes: Axes, names: Sequence[str], classes: dict[frozenset[str], str], *, is_named: bool
) -> None:
    from matplotlib.patches import Patch

    for row in range(1, len(names)):
        for kind, start, width in _runs(row, names, classes):
            axes.broken_barh([(start - 0.5, width)], (row - 0.5, 1), linewidth=0, **_FILLS[kind])
    if len(names) <= NAMED:
        lines = [place + 0.5 for place in range(len(names) - 1)]
        axes.hlines(lines, -0.5, [line + 0.5 for line in lines], color=PAPER, linewidth=0.8)
        axes.vlines(
            lines, [line + 0.5 for line in lines], len(names) - 0.5, color=PAPER, linewidth=0.8
        )
    step = 1 if len(names) <= NAMED else 20
    places = [place for place in range(len(names)) if step == 1 or (place + 1) % step == 0]
    numbers = [str(place + 1) for place in places]
    axes.set_yticks(places, [names[place] for place in places] if is_named else numbers)
    axes.set_xticks(places, numbers)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(length=0, labelsize=8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("place by resolution")
    handles = [
        Patch(label=key, edgecolor=MUTED, linewidth=0.3, **_FILLS[kind])
        for kind, key in _KEYS.items()
        if kind in classes.values()
    ]
    axes.figure.legend(handles=handles, loc="outside lower left", ncols=1, fontsize=9)


def _runs(
    row: int, names: Sequence[str], classes: dict[frozenset[str], str]
) -> Iterator[tuple[str, int, int]]:
    """Yield runs of neighbouring cells of one class below the diagonal of a row.

    A run is its class, its first column and its width."""
    kinds = [classes.get(frozenset((names[row], names[column])), "none") for column in range(row)]
    start = 0
    for kind, run in groupby(kinds):
        width = len(list(run))
        yield kind, start, width
        start += width
