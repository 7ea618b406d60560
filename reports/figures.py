"""Figures as SVG text for one HTML page.

Drawn in sentinel colours that become CSS variables, so that one drawing serves light and dark;
text stays text, in the page's own font. Every arm keeps one colour and one marker throughout.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from reports.format import percent, usd
from reports.types import ArmSummary, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.transforms import Transform

SERIES = 7
"""Colours before they repeat; the markers repeat later."""

INK, MUTED, RULE, PAPER = "#010101", "#010102", "#010103", "#010104"
_COLOURS = {
    INK: "var(--ink, #1b1b1b)",
    MUTED: "var(--muted, #5f6368)",
    RULE: "var(--rule, #d9d9d9)",
    PAPER: "var(--paper, #ffffff)",
} | {f"#0102{i:02d}": f"var(--arm-{i}, #0072b2)" for i in range(SERIES)}

_MARKERS = "osD^vPXd<>"

_WIDTH, _ROW = 4.7, 0.34
"""Inches: readable at the width of a phone and of half a desktop page."""

_LOG_SPAN = 20
"""From this ratio of dearest to cheapest cell on, costs are drawn on a logarithmic axis."""

_DIRECT_LABELS = 4
"""Points that are named beside themselves; more of them get a legend below."""

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 9,
    "xtick.labelsize": 9,
    "ytick.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Figure:
    """One drawing with the words that go with it."""

    name: str
    title: str
    caption: str
    description: str
    """What the drawing shows, in words, for those who do not see it."""
    svg: str


def draw_figures(report: Report) -> tuple[Figure, ...]:
    """Resolution, cost against resolution, distribution of cost."""
    return (_resolution(report.arms), _cost_against_resolution(report.arms), _cost_spread(report))


def colour_index(position: int) -> int:
    """Number of the page's colour variable for the arm at this position."""
    return position % SERIES


def _resolution(arms: Sequence[ArmSummary]) -> Figure:
    def draw(axes: Axes) -> None:
        for row, arm in enumerate(arms):
            _interval_bar(axes, row, arm)
            axes.text(1.05, row, percent(arm.rate), va="center", transform=_row_transform(axes))
        _arm_rows(axes, arms)
        _percent_axis(axes.xaxis, axes.set_xlim)
        axes.set_xlabel("planned cells resolved, with 95 % Wilson interval")

    told = [
        f"{arm.name} {percent(arm.rate)} ({percent(arm.interval.low)} to "
        f"{percent(arm.interval.high)})"
        for arm in arms
    ]
    return _figure(
        "resolution",
        "Resolution by arm",
        "Every planned cell is in the denominator. Overlapping intervals do not mean that the "
        "arms are equal: the paired table compares them cell by cell.",
        "Share of planned cells resolved: " + "; ".join(told) + ".",
        _height(len(arms)),
        draw,
    )


def _cost_against_resolution(arms: Sequence[ArmSummary]) -> Figure:
    priced = {i: arm for i, arm in enumerate(arms) if arm.cost_per_instance is not None}
    told = [
        f"{arm.name} {usd(arm.cost_per_instance, arm.cost.is_lower_bound)}, {percent(arm.rate)}"
        for arm in priced.values()
    ]
    left_out = [arm.name for arm in arms if arm.cost_per_instance is None]
    without = f" Not drawn, as their cost is unknown: {', '.join(left_out)}." if left_out else ""
    return _figure(
        "cost-resolution",
        "Cost against resolution",
        "Up and to the left is better. Bars are 95 % Wilson intervals." + without,
        "Mean cost per instance and share resolved: " + ("; ".join(told) or "none") + "." + without,
        3.1 if len(priced) <= _DIRECT_LABELS else 3.1 + 0.1 * len(priced),
        lambda axes: _rate_points(axes, priced),
    )


def _cost_spread(report: Report) -> Figure:
    costs = {
        arm.name: [c.cost_usd for c in report.cells if c.arm == arm.name and c.cost_usd is not None]
        for arm in report.arms
    }

    def draw(axes: Axes) -> None:
        for row, arm in enumerate(report.arms):
            if any(costs[arm.name]):
                _strip(axes, row, costs[arm.name])
            else:
                word = "no cost" if costs[arm.name] else "cost unknown"
                axes.text(0.01, row, word, color=MUTED, va="center", transform=_row_transform(axes))
        _arm_rows(axes, report.arms)
        _usd_axis(axes)
        _cost_scale(axes, [cost for name in costs for cost in costs[name] if any(costs[name])])
        axes.grid(visible=True, axis="x")
        axes.set_xlabel("cost of one attempt, USD")

    return _figure(
        "cost-spread",
        "Distribution of cost per instance",
        "One dot per cell that ran; the box spans the middle half, its line is the median.",
        "Cost of single attempts: "
        + "; ".join(f"{name} {_spread(values)}" for name, values in costs.items())
        + ".",
        _height(len(report.arms), 1.5),
        draw,
    )


def _spread(costs: list[float]) -> str:
    if not costs:
        return "unknown"
    middle = sorted(costs)[len(costs) // 2]
    return f"from {usd(min(costs))} over {usd(middle)} in the middle to {usd(max(costs))}"


def _interval_bar(axes: Axes, row: int, arm: ArmSummary) -> None:
    colour = _colour(row)
    axes.plot(
        [arm.interval.low, arm.interval.high], [row, row], color=colour, linewidth=2, alpha=0.55,
        solid_capstyle="round",
    )  # fmt: skip
    _marker(axes, arm.rate, row, row)


def _rate_points(axes: Axes, priced: Mapping[int, ArmSummary]) -> None:
    for position, arm in priced.items():
        _rate_point(axes, position, arm)
    points = [(arm.cost_per_instance or 0, arm.rate, arm.name) for arm in priced.values()]
    axes.set_xlim(left=0, right=1.15 * max((cost for cost, _, _ in points), default=0) or 1)
    _percent_axis(axes.yaxis, axes.set_ylim)
    _usd_axis(axes)
    axes.grid(visible=True)
    axes.set_xlabel("mean cost per instance, USD")
    axes.set_ylabel("resolved")
    if len(points) <= _DIRECT_LABELS:
        _label_points(axes, points)
    else:
        axes.figure.legend(loc="outside lower left", ncols=2, fontsize=9)


def _rate_point(axes: Axes, position: int, arm: ArmSummary) -> None:
    x, colour = arm.cost_per_instance or 0, _colour(position)
    axes.plot(
        [x, x], [arm.interval.low, arm.interval.high], color=colour, linewidth=1.6, alpha=0.45
    )
    _marker(axes, x, arm.rate, position, arm.name)


def _marker(axes: Axes, x: float, y: float, position: int, label: str = "") -> None:
    """The arm's own sign, whole also on the edge of the axes."""
    axes.plot(
        [x],
        [y],
        _MARKERS[position % len(_MARKERS)],
        color=_colour(position),
        markersize=7,
        clip_on=False,
        zorder=3,
        label=label,
    )


def _strip(axes: Axes, row: int, costs: list[float]) -> None:
    """Dots with a fixed jitter and, from five on, a box."""
    jitter = [row + 0.26 * (2 * ((i * 0.618034) % 1) - 1) for i in range(len(costs))]
    axes.scatter(
        costs,
        jitter,
        s=max(4.0, min(22.0, 900 / len(costs))),
        color=_colour(row),
        alpha=0.75 if len(costs) < 60 else 0.45,
        linewidths=0,
    )
    if len(costs) >= 5:
        line = {"color": INK, "linewidth": 1.1}
        axes.boxplot(
            costs, positions=[row], orientation="horizontal", widths=0.62, showfliers=False,
            showcaps=False, boxprops=line, medianprops={**line, "linewidth": 2},
            whiskerprops=line, manage_ticks=False,
        )  # fmt: skip


def _label_points(axes: Axes, points: list[tuple[float, float, str]]) -> None:
    """Names beside their points, moved up where they would cover each other."""
    width = axes.get_xlim()[1]
    placed: list[tuple[bool, float]] = []
    for x, y, name in sorted(points, key=lambda point: point[1]):
        is_right_of = x <= width / 2
        height = y
        while any(side == is_right_of and abs(height - h) < 0.075 for side, h in placed):
            height += 0.01
        placed.append((is_right_of, height))
        gap, anchor = (0.03, "left") if is_right_of else (-0.03, "right")
        axes.text(x + gap * width, height, name, ha=anchor, va="center")


def _arm_rows(axes: Axes, arms: Sequence[ArmSummary]) -> None:
    axes.set_yticks(range(len(arms)), [arm.name for arm in arms])
    axes.set_ylim(len(arms) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True, axis="x")


def _percent_axis(axis: Axis, set_limits: Callable[..., object]) -> None:
    set_limits(-0.02, 1.02)
    axis.set_ticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])


def _usd_axis(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(lambda value, _: f"${value:,.10g}")
    axes.xaxis.set_minor_formatter(lambda value, _: "")


def _cost_scale(axes: Axes, costs: list[float]) -> None:
    positive = [cost for cost in costs if cost > 0]
    if not positive:
        axes.set_xticks([])
    elif len(positive) == len(costs) and max(positive) / min(positive) >= _LOG_SPAN:
        axes.set_xscale("log")
        _usd_axis(axes)
    else:
        axes.set_xlim(left=0)


def _colour(position: int) -> str:
    return f"#0102{colour_index(position):02d}"


def _row_transform(axes: Axes) -> Transform:
    """Across in shares of the axes, down in rows."""
    return axes.get_yaxis_transform()


def _height(rows: int, scale: float = 1.0) -> float:
    return 0.75 + rows * _ROW * scale


def _figure(
    name: str,
    title: str,
    caption: str,
    description: str,
    height: float,
    draw: Callable[[Axes], None],
) -> Figure:
    from matplotlib import rc_context  # here because matplotlib takes most of a second to import
    from matplotlib.figure import Figure as Canvas

    with rc_context({**_STYLE, "svg.hashsalt": name}):
        canvas = Canvas(figsize=(_WIDTH, height), layout="constrained")
        draw(canvas.subplots())
        text = io.StringIO()
        canvas.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return Figure(name, title, caption, description, _embed(text.getvalue(), name, description))


def _embed(svg: str, name: str, description: str) -> str:
    """The drawing as part of an HTML page: themed, named, ids made unique, nothing external."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<(metadata|style)\b.*?</\1>", "", body, flags=re.DOTALL)
    for sentinel, variable in _COLOURS.items():
        body = body.replace(sentinel, variable)
    body = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", body)
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body)
    box = re.search(r'viewBox="[^"]*"', body)
    start = f'<svg {box[0] if box else ""} role="img" aria-labelledby="{name}-alt">'
    title = f'<title id="{name}-alt">{escape(description)}</title>'
    return re.sub(r"<svg[^>]*>", lambda _: start + title, body, count=1)
