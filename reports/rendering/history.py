"""The history of an experiment as table, figure and page."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from reports.analysis.history import DatedRun, History, RateChange
from reports.format import DASH, UNKNOWN, listing, moment, p_value, percent, points, usd
from reports.rendering.costs import cost_per_resolved
from reports.rendering.drawing import Figure, arm_colour, draw_figure, marker, percent_axis
from reports.rendering.lines import interval_text
from reports.rendering.templates import environment
from reports.types import ArmSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADER = (
    *("run", "began", "arm", "resolved", "rate", "95 % interval", "change, p"),
    *("cost", "per resolved"),
)


def rows(history: History) -> list[tuple[str, ...]]:
    """Return the cells of the table, one row per run and arm, the latest run first."""
    return [
        _row(run, arm, history.change(place, arm.name))
        for place, run in reversed([*enumerate(history.runs)])
        for arm in run.arms
    ]


def note(history: History) -> str:
    """Return the sentence that says which runs cannot be compared; empty if all can."""
    others = history.other_instances
    if not others:
        return ""
    return (
        f"Other instances than in the latest run, or other contents of them: {listing([*others])}. "
        "Their rates are not comparable."
    )


def render_markdown(history: History) -> str:
    """Return the table as Markdown."""
    table = [_line(HEADER), _line(["---"] * len(HEADER)), *map(_line, rows(history))]
    parts = [f"# History of {history.name}", note(history), "\n".join(table)]
    return "\n\n".join(filter(None, parts)) + "\n"


def render_page(history: History) -> str:
    """Return the page as HTML text."""
    return (
        environment()
        .get_template("history.html.j2")
        .render(
            history=history, header=HEADER, rows=rows(history), note=note(history),
            figure=draw_history(history),
        )
    )  # fmt: skip


def draw_history(history: History) -> Figure:
    """Draw the share resolved by each arm over the runs."""
    names = history.arms

    def draw(axes: Axes) -> None:
        for position, name in enumerate(names):
            shown = [
                (place, arm)
                for place, run in enumerate(history.runs)
                for arm in run.arms
                if arm.name == name
            ]
            shift = 0.12 * (position - (len(names) - 1) / 2)
            xs, colour = [place + shift for place, _ in shown], arm_colour(position)
            for (x, (one, arm)), (next_x, (other, later)) in pairwise(zip(xs, shown, strict=True)):
                if history.runs[one].contents == history.runs[other].contents:
                    axes.plot([x, next_x], [arm.rate, later.rate], color=colour, linewidth=1)
            for x, (_, arm) in zip(xs, shown, strict=True):
                low, high = arm.interval.low, arm.interval.high
                axes.plot([x, x], [low, high], color=colour, linewidth=1.6, alpha=0.45)
                marker(axes, x, arm.rate, position, name if x == xs[0] else "")
        percent_axis(axes.yaxis, axes.set_ylim)
        labelled = range(0, len(history.runs), 1 + len(history.runs) // 8)
        axes.set_xticks([*labelled], [_date(history.runs[i]) for i in labelled])
        axes.tick_params(axis="x", rotation=30)
        axes.grid(visible=True, axis="y")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.03), ncols=3, fontsize=8)

    told = [
        f"{run.experiment}: " + ", ".join(f"{arm.name} {percent(arm.rate)}" for arm in run.arms)
        for run in history.runs
    ]
    return draw_figure(
        "history",
        "Resolution over time",
        "Share of planned cells resolved in each run, with 95 % Wilson intervals. A line joins "
        "runs of the same instances.",
        "; ".join(told) + ".",
        3.2,
        draw,
    )


def _date(run: DatedRun) -> str:
    return f"{run.began:%m-%d %H:%M}" if run.began else UNKNOWN


def _row(run: DatedRun, arm: ArmSummary, change: RateChange | None) -> tuple[str, ...]:
    bound = arm.cost.is_lower_bound
    return (
        run.experiment,
        moment(run.began) if run.began else UNKNOWN,
        arm.name,
        f"{arm.resolved} of {arm.planned}",
        percent(arm.rate),
        f"{percent(arm.interval.low)} to {percent(arm.interval.high)}",
        _in_points(change),
        usd(arm.cost.usd, bound),
        cost_per_resolved(arm),
    )


def _in_points(change: RateChange | None) -> str:
    if change is None:
        return DASH
    limits = interval_text(change.interval, points)
    return f"{points(change.difference)} ({limits}), p = {p_value(change.p_value)}"


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"
