"""One drawing for an HTML page as SVG text.

The drawing uses sentinel colours that become CSS variables, so that it works in light and dark
mode. Text stays text, in the page's own font. Every arm keeps one colour and one marker.
"""

from __future__ import annotations

import base64
import io
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.transforms import Transform

ARM_COLOURS = ("#0072b2", "#d55e00", "#00805d", "#b0548a", "#8f7000", "#3a8fc4", "#5b5b5b")
"""Colours of arms outside of a page, which has its own of the same values in light mode."""

SERIES = len(ARM_COLOURS)
"""Number of colours before they repeat. The markers repeat later."""

INK, MUTED, RULE, PAPER = "#010101", "#010102", "#010103", "#010104"
_COLOURS = {
    INK: "var(--ink, #1b1b1b)",
    MUTED: "var(--muted, #5f6368)",
    RULE: "var(--rule, #d9d9d9)",
    PAPER: "var(--paper, #ffffff)",
} | {f"#0102{i:02d}": f"var(--arm-{i}, {colour})" for i, colour in enumerate(ARM_COLOURS)}

_MARKERS = "osD^vPXd<>"
_DASHES = ("-", "--", ":", "-.")

_WIDTH, _ROW, _NAMED_ROW = 4.7, 0.34, 0.5
"""Sizes in inches, readable at the width of a phone and of half a desktop page. A named row has
its name above it."""

_SVG_DPI = 72
"""Resolution in which matplotlib writes SVG."""

_TALL = 12.0
"""Height in inches above which a drawing needs a box that scrolls."""

_SHORT = 16
"""Maximum length of a name next to its row. If a name is longer, all names are above their rows."""

_LONGEST = 48
"""Maximum length of a name in a figure. A longer name loses its middle."""

_LOG_SPAN = 20
"""From this ratio of dearest to cheapest cell on, the axis of costs is logarithmic."""

_DECADES_ALONE = 1000
"""Below this ratio, powers of ten alone would give only one or two ticks."""

_TICKS_ALONE = 100
"""Below this ratio of the limits, powers of ten alone would give only one or two ticks."""

_FEW_TICKS = 8
"""Below this ratio of the limits, so would powers of ten, twice and five times them."""

_NO_MULTIPLES = 3
"""Below this ratio, ticks have equal distances."""

_MOST_LABELS = 5
"""Number of intervals whose labels fit, such as $0.00025."""

_LINEAR_SHARE = 0.16
"""Length of the part from 0 to the least cost, as a share of the logarithmic part."""

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
    height: float
    """In inches."""
    draw: Callable[[Axes], None] = field(compare=False, repr=False)
    hints: Mapping[str, str] = field(default_factory=dict)
    """Texts of tooltips, by the id of the drawn element."""

    @property
    def is_tall(self) -> bool:
        """True if the drawing needs a box that scrolls."""
        return self.height > _TALL

    @cached_property
    def svg(self) -> str:
        """The drawing, which takes a tenth of a second."""
        from matplotlib import rc_context  # imported late: matplotlib takes most of a second
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure as Canvas
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        with rc_context({**_STYLE, "svg.hashsalt": self.name}), warnings.catch_warnings():
            # Texts stay texts: the reader's fonts show the letters that matplotlib's own one lacks.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            canvas = Canvas(figsize=(_WIDTH, self.height), dpi=_SVG_DPI)
            FigureCanvasSVG(canvas)  # its texts have the sizes of the drawing
            self.draw(canvas.subplots())
            # Otherwise `savefig` draws everything twice, the first time for the layout alone.
            ConstrainedLayoutEngine().execute(canvas)
            text = io.StringIO()
            canvas.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        svg = _embed(text.getvalue(), self.name, self.description)
        for element, hint in self.hints.items():
            group = f'<g id="{self.name}-{element}">'
            svg = svg.replace(group, f"{group}<title>{escape(hint)}</title>", 1)
        return svg

    def _repr_html_(self) -> str:
        """Return the figure as a notebook shows it, on white and as wide as on a page.

        It is an image, because notebooks that were not run here, and forges, remove SVG elements.
        """
        attributes = (
            'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
            'font-family="sans-serif"'
        )
        drawing = self.svg.replace("<svg", f"<svg {attributes}", 1)
        data = base64.b64encode(drawing.encode()).decode()
        return (
            '<figure style="background: white; color: black; max-width: 34rem; margin: 0 0 2em">'
            f'<b>{escape(self.title)}</b><br><img width="544" alt="{escape(self.description)}" '
            f'src="data:image/svg+xml;base64,{data}"><figcaption>{escape(self.caption)}'
            "</figcaption></figure>"
        )


def arm_colour(position: int) -> str:
    """Return the sentinel colour of the arm at this position."""
    return f"#0102{position % SERIES:02d}"


def marker_shape(position: int) -> str:
    """Return the shape of the marker at this position. Shapes repeat later than colours."""
    return _MARKERS[position % len(_MARKERS)]


def marker(axes: Axes, x: float, y: float, position: int, label: str = "") -> None:
    """Draw the arm's own marker, unclipped at the edge of the axes."""
    colour, shape = arm_colour(position), marker_shape(position)
    axes.plot([x], [y], shape, color=colour, markersize=7, clip_on=False, zorder=3, label=label)


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


@dataclass(frozen=True)
class Box:
    """One distribution as a box with a line through it."""

    middle: float
    """Place on the vertical axis."""
    least: float
    lower_quartile: float
    median: float
    upper_quartile: float
    most: float
    colour: str
    is_filled: bool

    @classmethod
    def of(cls, spread: Mapping[str, Any], middle: float, colour: str, *, is_filled: bool) -> Box:
        """Return the box of a row of `marts.spreads`."""
        return cls(
            middle,
            spread["least"],
            spread["lower_quartile"],
            spread["median"],
            spread["upper_quartile"],
            spread["most"],
            colour,
            is_filled,
        )


def boxes(axes: Axes, shown: Sequence[Box], height: float) -> None:
    """Draw boxes of this height. They are a few collections, as single artists are slow."""
    colours, middles = [box.colour for box in shown], [box.middle for box in shown]
    low, high = [box.lower_quartile for box in shown], [box.upper_quartile for box in shown]
    for ends, others in (([b.least for b in shown], low), (high, [b.most for b in shown])):
        axes.hlines(middles, ends, others, colors=colours, linewidth=1, zorder=2)
    axes.barh(
        middles,
        [right - left for left, right in zip(low, high, strict=True)],
        left=low,
        height=height,
        facecolor=[box.colour if box.is_filled else "none" for box in shown],
        edgecolor=colours,
        linewidth=1,
        zorder=2,
    )
    medians = [box.median for box in shown]
    bottom, top = [[y + side * height / 2 for y in middles] for side in (-1, 1)]
    axes.vlines(medians, bottom, top, colors=INK, linewidth=2, zorder=3)


def arm_rows(axes: Axes, names: Sequence[str]) -> None:
    """Set up one row per arm from the top. Long names are above their rows."""
    if _are_long(names):
        axes.set_yticks([])
        for row, name in enumerate(names):
            label = axes.text(0, row - 0.38, shorten(name), va="center")
            label.set(transform=row_transform(axes), in_layout=False)
    else:
        axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.tick_params(axis="x", labeltop=height_of(names) > _TALL)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True, axis="x")


def shorten(name: str) -> str:
    """Return a name that fits a figure: of a longer one, its beginning and its end."""
    half = _LONGEST // 2
    return name if len(name) <= _LONGEST else f"{name[: half - 1]}…{name[-half:]}"


def percent_axis(axis: Axis, set_limits: Callable[..., object]) -> None:
    """Scale an axis from 0 to 100 %, with room for markers at either end."""
    set_limits(-0.02, 1.02)
    axis.set_ticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])


def usd_axis(axes: Axes) -> None:
    """Label the horizontal axis in dollars, in plain notation."""
    axes.xaxis.set_major_formatter(lambda value, _: f"${value:,.10g}")
    axes.minorticks_off()  # they have no labels, and take an eighth of the time


def log_axis(axes: Axes, *, is_usd: bool = True) -> None:
    """Label a logarithmic axis at round numbers, in dollars or as counts."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    low, high = axes.get_xlim()
    subs: tuple[float, ...] = (1.0, 2.0, 5.0) if high / low < _TICKS_ALONE else (1.0,)
    if high / low < _FEW_TICKS:
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    is_short = high / low < _NO_MULTIPLES
    axes.xaxis.set_major_locator(
        MaxNLocator(_MOST_LABELS) if is_short else LogLocator(subs=subs, numticks=7)
    )
    usd_axis(axes)
    if not is_usd:
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")


def log_or_linear(axes: Axes, costs: Sequence[float]) -> None:
    """Scale the horizontal axis for these costs, logarithmically if they span a wide range.

    A cost of 0 is at the left end of either.
    """
    positive = [cost for cost in costs if cost > 0]
    if not positive:
        axes.set_xticks([])
    elif max(positive) / min(positive) >= _LOG_SPAN:
        from matplotlib.ticker import LogLocator

        least, most = min(positive), max(positive)
        steps = (1.0, 2.0, 5.0) if most / least < _DECADES_ALONE else (1.0,)
        locator = LogLocator(subs=steps)
        if len(positive) == len(costs):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(locator)
        else:
            share = _LINEAR_SHARE * math.log10(most / least)
            axes.set_xscale("symlog", linthresh=least, linscale=share)
            ticks = locator.tick_values(least, most)
            axes.set_xticks([0, *(tick for tick in ticks if least <= tick <= most)])
            axes.set_xlim(left=0)
        usd_axis(axes)
    else:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(_MOST_LABELS))
        axes.set_xlim(left=0)


def row_transform(axes: Axes) -> Transform:
    """Return the transform with x in shares of the axes and y in rows."""
    return axes.get_yaxis_transform()


def height_of(names: Sequence[str], scale: float = 1.0) -> float:
    """Return the height in inches of one row for each name, axis included."""
    return 0.75 + len(names) * (_NAMED_ROW if _are_long(names) else _ROW) * scale


def band_of(names: Sequence[str]) -> float:
    """Return the part of a row's height that is free for bars and boxes."""
    return 0.4 if _are_long(names) else 0.6


def _are_long(names: Sequence[str]) -> bool:
    return any(len(name) > _SHORT for name in names)


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
