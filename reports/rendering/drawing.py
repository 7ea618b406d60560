"""One drawing for an HTML page as SVG text.

The drawing uses sentinel colours that become CSS variables, so that it works in light and dark
mode. Text stays text, in the page's own font. Every arm keeps one colour and one marker.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from reports.types import ArmSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.transforms import Transform

SERIES = 7
"""Number of colours before they repeat. The markers repeat later."""

INK, MUTED, RULE, PAPER = "#010101", "#010102", "#010103", "#010104"
_COLOURS = {
    INK: "var(--ink, #1b1b1b)",
    MUTED: "var(--muted, #5f6368)",
    RULE: "var(--rule, #d9d9d9)",
    PAPER: "var(--paper, #ffffff)",
} | {f"#0102{i:02d}": f"var(--arm-{i}, #0072b2)" for i in range(SERIES)}

_MARKERS = "osD^vPXd<>"

_WIDTH, _ROW = 4.7, 0.34
"""Sizes in inches, readable at the width of a phone and of half a desktop page."""

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
    "hatch.linewidth": 0.8,
}


@dataclass(frozen=True)
class Figure:
    """One drawing with its texts."""

    name: str
    title: str
    caption: str
    description: str
    """Description of the drawing in words, for readers who do not see it."""
    svg: str


def draw_figure(
    name: str,
    title: str,
    caption: str,
    description: str,
    height: float,
    draw: Callable[[Axes], None],
) -> Figure:
    """Run `draw` on axes of this height in inches. Return the figure for the page."""
    from matplotlib import rc_context  # imported late: matplotlib takes most of a second
    from matplotlib.figure import Figure as Canvas

    with rc_context({**_STYLE, "svg.hashsalt": name}):
        canvas = Canvas(figsize=(_WIDTH, height), layout="constrained")
        draw(canvas.subplots())
        text = io.StringIO()
        canvas.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return Figure(name, title, caption, description, _embed(text.getvalue(), name, description))


def colour_index(position: int) -> int:
    """Return the number of the page's colour variable for the arm at this position."""
    return position % SERIES


def arm_colour(position: int) -> str:
    """Return the sentinel colour of the arm at this position."""
    return f"#0102{colour_index(position):02d}"


def marker(axes: Axes, x: float, y: float, position: int, label: str = "") -> None:
    """Draw the arm's own marker, unclipped at the edge of the axes."""
    axes.plot(
        [x],
        [y],
        _MARKERS[position % len(_MARKERS)],
        color=arm_colour(position),
        markersize=7,
        clip_on=False,
        zorder=3,
        label=label,
    )


def arm_rows(axes: Axes, arms: Sequence[ArmSummary]) -> None:
    """Set up one row per arm, in declared order from the top."""
    axes.set_yticks(range(len(arms)), [arm.name for arm in arms])
    axes.set_ylim(len(arms) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True, axis="x")


def percent_axis(axis: Axis, set_limits: Callable[..., object]) -> None:
    """Scale an axis from 0 to 100 %, with room for markers at either end."""
    set_limits(-0.02, 1.02)
    axis.set_ticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])


def usd_axis(axes: Axes) -> None:
    """Label the horizontal axis in dollars, in plain notation."""
    axes.xaxis.set_major_formatter(lambda value, _: f"${value:,.10g}")
    axes.xaxis.set_minor_formatter(lambda value, _: "")


def row_transform(axes: Axes) -> Transform:
    """Return the transform with x in shares of the axes and y in rows."""
    return axes.get_yaxis_transform()


def height_of(rows: int, scale: float = 1.0) -> float:
    """Return the height in inches for this number of rows, axis included."""
    return 0.75 + rows * _ROW * scale


def _embed(svg: str, name: str, description: str) -> str:
    """Convert the drawing for an HTML page: themed, named, with unique ids, self-contained."""
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
