"""The first figure of a page: cost against resolution, with the names of the arms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.analysis.best import NO_MODEL, find_best_of_models
from reports.economics import ArmWorth
from reports.format import percent, plural, some, usd
from reports.rendering.drawing import (
    INK,
    MUTED,
    PAPER,
    SERIES,
    Figure,
    arm_colour,
    log_axis,
    marker_shape,
    shorten,
)
from reports.types import ArmSummary, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 8
"""Up to this number of arms, points have intervals."""

MODELS = SERIES - 1
"""Maximum number of models with a separate colour: the models that resolve most."""

HARNESSES = 7
"""Maximum number of harnesses with a separate shape: the harnesses of most arms."""

_OTHERS = "."
"""The shape of all other harnesses."""

_CHARACTER, _LINE = 0.0165, 0.05
"""Approximate width of a character and height of a line of a name, as shares of the axes."""

_AWAY = tuple(_LINE * step / 2 for step in range(2, 9))
"""Vertical distances of a name from its point."""

_HEIGHT, _LEGEND_ROW = 3.6, 0.17
"""Sizes in inches: the axes with their labels, and a row of the legend."""

_COLUMN = 24
"""Longest name in a legend of two columns."""


@dataclass(frozen=True)
class _Point:
    """One arm at its place in the figure."""

    arm: ArmWorth
    colour: str
    shape: str
    label: str
    is_needed: bool
    """True if the figure has its name even if there is little room."""


@dataclass(frozen=True)
class _Box:
    """A rectangle in shares of the axes."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: _Box) -> bool:
        """Return True if both have an area in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )


def draw_lead(report: Report) -> tuple[Figure, ...]:
    """Draw cost against resolution. Return no figure with fewer than two arms of known cost."""
    worth = report.worth
    if len(worth.arms) < 2:
        return ()
    arms = sorted((report.arm(arm.arm) for arm in worth.arms), key=lambda arm: -arm.rate)
    colours, shapes = _choose_colours(report, arms), _choose_shapes(report, arms)
    points = [*_points(report, colours, shapes)]
    legend = _legend(arms, colours, shapes)
    columns = 1 if any(len(name) > _COLUMN for name, _, _ in legend) else 2
    caption = (
        "Up and to the left is better. Line: most that is resolved for at most this cost. "
        "Filled: on this frontier; hollow: not."
    )
    if len({arm.model for arm in arms}) > 1:
        caption += " Colour: model."
    if len({arm.agent for arm in arms}) > 1:
        caption += " Shape: harness."
    if len(arms) <= FEW:
        caption += " Bars: 95 % Wilson intervals."
    if worth.left_out:
        caption += f" Not drawn, without a known cost: {some([*worth.left_out])}."
    frontier = [f"{arm.arm} {usd(arm.cost_usd)}, {percent(arm.rate)}" for arm in worth.frontier]
    figure = Figure(
        "frontier",
        "Cost against resolution",
        caption,
        f"Arms on the frontier by cost per instance and share resolved: {'; '.join(frontier)}.",
        _HEIGHT + _LEGEND_ROW * -(-len(legend) // columns),
        lambda axes: _draw(axes, report, points, legend, columns),
        {
            f"point{number}": f"{arm.arm}: {usd(arm.cost_usd)}, {percent(arm.rate)}"
            for number, arm in enumerate(point.arm for point in points)
        },
    )
    return (figure,)


def _choose_colours(report: Report, arms: Sequence[ArmSummary]) -> Mapping[str, str]:
    """Return the colour of each arm: the colour of its model, if the models are known.

    Models beyond the first `MODELS` share one colour. With one model, all arms have its colour.
    An arm with its own model has the colour that it has in other figures.
    """
    if not any(arm.model not in NO_MODEL for arm in arms):
        return {arm.arm: arm_colour(arm.position) for arm in report.worth.arms}
    best = [*dict.fromkeys(arm.model for arm in arms)][:MODELS]
    of_all = dict.fromkeys(arm.model for arm in _in_order(report, arms))
    models = [model for model in of_all if model in best]
    colours = {model: arm_colour(place) for place, model in enumerate(models)}
    return {arm.name: colours.get(arm.model, MUTED) for arm in arms}


def _choose_shapes(report: Report, arms: Sequence[ArmSummary]) -> Mapping[str, str]:
    """Return the marker of each arm, which depends on its harness.

    Harnesses beyond the first `HARNESSES` share one marker.
    """
    times = Counter(arm.agent for arm in _in_order(report, arms)).most_common(HARNESSES)
    shapes = {agent: marker_shape(place) for place, (agent, _) in enumerate(times)}
    return {arm.name: shapes.get(arm.agent, _OTHERS) for arm in arms}


def _in_order(report: Report, arms: Sequence[ArmSummary]) -> list[ArmSummary]:
    """Return the arms by their position, which determines their colour in other figures."""
    positions = {arm.arm: arm.position for arm in report.worth.arms}
    return sorted(arms, key=lambda arm: positions[arm.name])


def _points(
    report: Report, colours: Mapping[str, str], shapes: Mapping[str, str]
) -> Iterator[_Point]:
    """Yield the points, those whose names matter most first. Arms at one point share a name."""
    worth = report.worth
    pair = report.comparisons[0] if report.comparisons else None
    leading = {pair.baseline, pair.candidate} if pair else set()
    of_models = {best.arm.name for best in find_best_of_models(report)}

    def rank(arm: ArmWorth) -> tuple[bool, bool, bool, float]:
        is_efficient = arm.standing == "efficient"
        return arm.arm not in leading, not is_efficient, arm.arm not in of_models, -arm.rate

    alike = Counter((arm.cost_usd, arm.rate) for arm in worth.arms)
    places = set()
    for arm in sorted(worth.arms, key=rank):
        place = arm.cost_usd, arm.rate
        others = alike[place] - 1
        label = "" if place in places else shorten(arm.arm) + (f" (+{others})" if others else "")
        places.add(place)
        is_needed = arm.arm in leading or arm.standing == "efficient"
        yield _Point(arm, colours[arm.arm], shapes[arm.arm], label, is_needed)


def _legend(
    arms: Sequence[ArmSummary], colours: Mapping[str, str], shapes: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """Return name, colour and marker of each model and each harness, if there are several."""
    models = {arm.model: colours[arm.name] for arm in arms}
    agents = {arm.agent: shapes[arm.name] for arm in arms}
    entries = []
    if len(models) > 1:
        named = [(shorten(name), colour, "o") for name, colour in models.items()]
        entries += [entry for entry in named if entry[1] != MUTED]
        if others := len(models) - len(entries):
            entries.append((plural(others, "other model"), MUTED, "o"))
    if len(agents) > 1:
        named = [(shorten(name), INK, shape) for name, shape in agents.items()]
        harnesses = [entry for entry in named if entry[2] != _OTHERS]
        entries += harnesses
        if others := len(agents) - len(harnesses):
            entries.append((plural(others, "other harness", "other harnesses"), INK, _OTHERS))
    return entries


def _draw(
    axes: Axes,
    report: Report,
    points: Sequence[_Point],
    legend: Sequence[tuple[str, str, str]],
    columns: int,
) -> None:
    from matplotlib.lines import Line2D

    worth = report.worth
    has_bars = len(worth.arms) <= FEW
    ends = [arm.rate for arm in worth.arms]
    if has_bars:
        intervals = [report.arm(arm.arm).interval for arm in worth.arms]
        ends += [end for interval in intervals for end in (interval.low, interval.high)]
    _scale(axes, [arm.cost_usd for arm in worth.arms], ends)
    steps = [arm for arm in worth.arms if arm.standing != "dominated"]
    axes.plot(
        [*(arm.cost_usd for arm in steps), axes.get_xlim()[1]],
        [*(arm.rate for arm in steps), steps[-1].rate],
        drawstyle="steps-post", color=MUTED, linewidth=1.2, zorder=1,
    )  # fmt: skip
    for number, point in enumerate(points):
        arm = point.arm
        if has_bars:
            interval = report.arm(arm.arm).interval
            axes.vlines(
                arm.cost_usd, interval.low, interval.high, colors=point.colour, linewidth=1.6,
                alpha=0.4,
            )  # fmt: skip
        is_efficient = arm.standing == "efficient"
        axes.plot(
            [arm.cost_usd], [arm.rate], point.shape, markersize=6.5 if is_efficient else 5,
            markerfacecolor=point.colour if is_efficient else PAPER, markeredgecolor=point.colour,
            clip_on=False, zorder=3 if is_efficient else 2, gid=f"point{number}",
        )  # fmt: skip
    _write_names(axes, points)
    if legend:
        axes.figure.legend(
            handles=[
                Line2D([], [], color=colour, marker=shape, linestyle="", markersize=5, label=name)
                for name, colour, shape in legend
            ],
            loc="outside lower left", ncols=columns, fontsize=8, handletextpad=0.2,
            labelspacing=0.3, columnspacing=1,
        )  # fmt: skip


def _scale(axes: Axes, costs: Sequence[float], ends: Sequence[float]) -> None:
    """Scale the axes to the data, with room for names."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xscale("log")
    axes.set_xlim(min(costs) / 1.4, max(costs) * 1.4)
    room = 0.08 * max(max(ends) - min(ends), 0.05)
    axes.set_ylim(min(ends) - room, max(ends) + room)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], min_n_ticks=2))
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.4g} %")
    log_axis(axes)
    axes.grid(visible=True)
    axes.set_xlabel("mean cost per instance, USD")
    axes.set_ylabel("resolved")


def _write_names(axes: Axes, points: Sequence[_Point]) -> None:
    """Write the names next to the points. A name without room is left out unless it is needed."""
    to_axes = (axes.transScale + axes.transLimits).transform
    places = [
        (float(x), float(y))
        for x, y in to_axes([(point.arm.cost_usd, point.arm.rate) for point in points])
    ]
    taken = [_Box(x - 0.012, y - 0.018, x + 0.012, y + 0.018) for x, y in places]
    lines = [*_along(places, points)]
    for point, (x, y) in zip(points, places, strict=True):
        if not point.label:
            continue
        boxes = _boxes(x, y, len(point.label), far=point.is_needed)
        box = _first_free(boxes, [*taken, *lines])
        if point.is_needed:
            box = box or _first_free(boxes, taken) or boxes[0]
        if box is None:
            continue
        taken.append(box)
        middle = (box.bottom + box.top) / 2
        is_left = box.right < x
        axes.text(
            box.right if is_left else box.left, middle, point.label, transform=axes.transAxes,
            ha="right" if is_left else "left", va="center", fontsize=8,
            color=INK if point.is_needed else MUTED, zorder=4, in_layout=False,
        )  # fmt: skip
        if abs(middle - y) > _LINE:
            end = min(max(x, box.left), box.right)
            axes.plot([x, end], [y, middle], transform=axes.transAxes, color=MUTED, linewidth=0.5)


def _along(places: Sequence[tuple[float, float]], points: Sequence[_Point]) -> Iterator[_Box]:
    """Yield flat boxes along the line of the frontier."""
    both = zip(places, points, strict=True)
    steps = sorted(place for place, point in both if point.arm.standing != "dominated")
    for (x, y), (following, above) in zip(steps, [*steps[1:], (1.0, steps[-1][1])], strict=True):
        yield _Box(x, y - 0.004, following, y + 0.004)
        yield _Box(following - 0.002, y, following + 0.002, above)


def _boxes(x: float, y: float, characters: int, *, far: bool) -> list[_Box]:
    """Return the boxes for a name next to a point and, with `far`, above and below it.

    If any box is within the axes, the rest is dropped.
    """
    width = characters * _CHARACTER
    near = [(x + 0.02, 0.0), (x - 0.02 - width, 0.0)]
    sides = [x + 0.01, x - 0.01 - width, x - width / 2]  # bars go up and down from the point
    if far:
        near += [(left, sign * step) for step in _AWAY for sign in (1, -1) for left in sides]
    boxes = [_Box(left, y + up - _LINE / 2, left + width, y + up + _LINE / 2) for left, up in near]
    within = [
        box
        for box in boxes
        if box.left >= 0 and box.right <= 1.02 and box.bottom >= 0 and box.top <= 1.06
    ]
    return within or boxes


def _first_free(boxes: Sequence[_Box], taken: Sequence[_Box]) -> _Box | None:
    return next((box for box in boxes if not any(map(box.meets, taken))), None)
