"""How did the results of a schedule change from run to run?"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from reports.format import DASH, UNKNOWN, listing, moment, p_value, percent, percents, points, usd
from reports.questions.history.analysis import DatedRun, History, RateChange
from reports.rendering.drawing import Figure, arm_colour, marker, percent_axis
from reports.rendering.sections import ReportDocument, Section, Table
from reports.types import ArmSummary
from reports.wording import cost_per_resolved, interval_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADER = (
    *("run", "began", "arm", "resolved", "rate", "95 % interval", "change, p"),
    *("cost", "per resolved"),
)


def describe_history(history: History) -> ReportDocument:
    """Return the runs of a series, the latest first, with their figure."""
    rows = tuple(
        _row(run, arm, history.change(place, arm.name))
        for place, run in reversed([*enumerate(history.runs)])
        for arm in run.arms
    )
    table = Table("Runs, the latest first", HEADER, rows, 3, on=("terminal", "markdown", "page"))
    warning = ""
    if others := history.other_instances:
        warning = (
            "Other instances than in the latest run, or other contents of them: "
            f"{listing([*others])}. Their rates are not comparable."
        )
    figures = (draw_history(history),)
    section = Section("history", "History", warning, (table,), figures=figures)
    return ReportDocument(
        kind="history", title=history.name, names=history.arms, sections=(section,)
    )


def draw_history(history: History) -> Figure:
    """Draw the share resolved by each arm over the runs."""
    names = history.arms

    def draw(axes: Axes) -> None:
        for position, name in enumerate(names):
            points = [
                (place, arm)
                for place, run in enumerate(history.runs)
                for arm in run.arms
                if arm.name == name
            ]
            shift = 0.12 * (position - (len(names) - 1) / 2)
            xs, colour = [place + shift for place, _ in points], arm_colour(position)
            for (x, (first, arm)), (next_x, (other, later)) in pairwise(
                zip(xs, points, strict=True)
            ):
                if history.runs[first].contents == history.runs[other].contents:
                    axes.plot([x, next_x], [arm.rate, later.rate], color=colour, linewidth=1)
            for x, (_, arm) in zip(xs, points, strict=True):
                low, high = arm.interval.low, arm.interval.high
                axes.plot([x, x], [low, high], color=colour, linewidth=1.6, alpha=0.45)
                marker(axes, x, arm.rate, position, name if x == xs[0] else "")
        percent_axis(axes.yaxis, axes.set_ylim)
        labelled = range(0, len(history.runs), 1 + len(history.runs) // 8)
        dates = [history.runs[i].began for i in labelled]
        axes.set_xticks([*labelled], [f"{d:%m-%d %H:%M}" if d else UNKNOWN for d in dates])
        axes.tick_params(axis="x", rotation=30)
        axes.grid(visible=True, axis="y")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.03), ncols=3, fontsize=8)

    texts = [
        f"{run.experiment}: " + ", ".join(f"{arm.name} {percent(arm.rate)}" for arm in run.arms)
        for run in history.runs
    ]
    return Figure(
        "history",
        "Resolution over time",
        "Share of planned cells resolved in each run, with 95 % Wilson intervals. A line joins "
        "runs of the same instances.",
        "; ".join(texts) + ".",
        3.2,
        draw,
    )


def _row(run: DatedRun, arm: ArmSummary, change: RateChange | None) -> tuple[str, ...]:
    difference = DASH
    if change:
        limits = interval_text(change.interval, points)
        difference = f"{points(change.difference)} ({limits}), p = {p_value(change.p_value)}"
    return (
        run.experiment,
        moment(run.began) if run.began else UNKNOWN,
        arm.name,
        f"{arm.resolved} of {arm.planned}",
        percent(arm.rate),
        percents(arm.interval),
        difference,
        usd(arm.cost.usd, arm.cost.is_lower_bound),
        cost_per_resolved(arm),
    )
