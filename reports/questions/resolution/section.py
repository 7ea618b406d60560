"""Which arm is best, how sure is that, and at which price?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from reports.analysis.best import Best, find_best_of_models
from reports.estimates import Interval
from reports.format import DASH, count, p_value, percent, percents, plural, point_limits, points
from reports.questions.resolution.headline import compare, conclude, show_chance
from reports.questions.resolution.lead_figure import draw_lead
from reports.rendering.drawing import (
    Figure,
    arm_colour,
    arm_rows,
    height_of,
    marker,
    percent_axis,
    row_transform,
)
from reports.rendering.sections import Section, Table, TableCell
from reports.types import ArmSummary, Comparison, Report, Resampled
from reports.wording import (
    PAIRED,
    Line,
    cost_ratio,
    format_adjusted_p,
    line_tables,
    positions,
    price,
    rank_arms,
    size,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUESTION = "Which arm is best, how sure is that, and at which price?"

SHOWN = 8
"""Maximum number of models that the terminal shows."""


def answer(_: object, report: Report) -> Section:
    """Return the headline with its figures, the best arm of each model, and the leading pair."""
    winners = find_best_of_models(report)
    tables, brief = [*_list_models(report, winners)], [*_describe_models(report, winners)]
    footnotes: list[str] = []
    if report.resampled:
        pair = report.comparisons[0]
        lines = [*_list_test(pair), *_list_declared(report)]
        tables += [_list_cells(pair), *line_tables("Resolution", lines)]
        brief.append(_summarise(pair, report.resampled, lines))
        footnotes += _footnotes(report, pair)
    return Section(
        "resolution",
        QUESTION,
        conclude(report),
        tuple(tables),
        tuple(footnotes),
        figures=(*draw_lead(report), draw_resolution(report)),
        brief=tuple(brief),
    )


def draw_resolution(report: Report) -> Figure:
    """Draw the resolved share of each arm with its interval."""
    arms, position = rank_arms(report), positions(report)
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

    rates = [f"{arm.name} {percent(arm.rate)} ({percents(arm.interval)})" for arm in arms]
    return Figure(
        "resolution",
        "Resolution by arm",
        "Arms by rate, best first. Every planned cell is in the denominator. Overlapping intervals "
        "do not mean that the arms are equal: the paired table compares them cell by cell.",
        "Share of planned cells resolved: " + "; ".join(rates) + ".",
        height_of(names),
        draw,
    )


def _list_models(report: Report, winners: Sequence[Best]) -> Iterator[Table]:
    """Yield a table with a line for each model with several arms, if arms share models."""
    rows = []
    for best in winners:
        rival = best.next
        interval = rival.pair.interval
        if rival.pair.candidate != best.arm.name:
            interval = Interval(-interval.high, -interval.low)
        row = [best.arm.model]
        for arm in (best.arm, rival.arm):
            row += [arm.name, _facts(report, arm)]
        row += [compare(rival.lead, rival.p_value), points(rival.lead), point_limits(interval)]
        rows.append((*row, p_value(rival.p_value)))
    header = (
        *("model", "best arm", "resolved", "next arm", "resolved", "comparison"),
        *("lead, points", "95 % interval", "p"),
    )
    caption = "The best arm of each model against the next of the same model"
    if rows:
        yield Table(caption, header, tuple(rows), 2)


def _describe_models(report: Report, winners: Sequence[Best]) -> Iterator[str]:
    """Yield a line for each model with several arms, and one on how many are not shown."""
    for best in winners[:SHOWN]:
        rival = best.next
        word = compare(rival.lead, rival.p_value)
        than = "to" if word == "no difference seen" else "than"
        yield (
            f"{best.arm.model}: {best.arm.name} {_facts(report, best.arm)}, {word} {than} "
            f"{rival.arm.name} ({percent(rival.arm.rate)}; {show_chance(rival.p_value)})"
        )
    if len(winners) > SHOWN:
        yield f"and {plural(len(winners) - SHOWN, 'more model')}, all in the report"


def _facts(report: Report, arm: ArmSummary) -> str:
    cost = price(report.worth, arm)
    return percent(arm.rate) + (f" at {cost}" if cost else "")


def _list_cells(pair: Comparison) -> Table:
    """Return the cells of the leading pair by the arms that resolved them."""
    table = pair.table
    return Table(
        f"{pair.candidate} against {pair.baseline}: {pair.role} comparison; only cells that one of "
        "them resolved separate the arms",
        ("", f"{pair.candidate} resolved", "not resolved"),
        (
            (
                f"{pair.baseline} resolved",
                count(table.both),
                TableCell(count(table.only_baseline), kind="discordant"),
            ),
            (
                "not resolved",
                TableCell(count(table.only_candidate), kind="discordant"),
                count(table.neither),
            ),
        ),
        style="paired",
    )


def _list_test(pair: Comparison) -> Iterator[Line]:
    """Yield the difference and its p-value, which are of one test."""
    over, limits = plural(pair.table.pairs, "pair"), point_limits(pair.interval)
    yield "difference, points", points(pair.table.difference), limits, over, PAIRED
    differing = plural(pair.table.discordant, "discordant pair")
    if pair.has_repeats:
        instances = plural(pair.leads.instances, "instance")
        differing = f"{count(pair.leads.differing)} of {instances} differ"
    yield "p", p_value(pair.p_value), DASH, differing, PAIRED


def _list_declared(report: Report) -> Iterator[Line]:
    """Yield the declared tests: the one within its family, and the one against the margin."""
    if _is_in_a_family(report):
        over = plural(len(report.source.plan.comparisons), "declared comparison")
        yield "p, adjusted", format_adjusted_p(report.comparisons[0]), DASH, over, "Holm"
    judged = report.non_inferiority
    if judged:
        yield (
            f"{judged.candidate} not worse by more than {size(judged.margin)}",
            "shown" if judged.is_shown else "not shown",
            DASH,
            f"lower limit {points(judged.low)} against {points(-judged.margin)}",
            PAIRED,
        )


def _is_in_a_family(report: Report) -> bool:
    """Return True if the leading pair is one of several declared comparisons."""
    is_declared = report.comparisons[0].adjusted_p_value is not None
    return is_declared and len(report.source.plan.comparisons) > 1


def _summarise(pair: Comparison, resampled: Resampled, lines: Sequence[Line]) -> str:
    """Return the difference, the tests and the ratio of cost in one line."""
    (_, difference, limits, _, method), _, *declared = lines
    summary = (
        f"{pair.candidate} against {pair.baseline} ({pair.role}): Difference of resolution "
        f"{difference} points (95 % interval {limits}), p = {p_value(pair.p_value)}, {method}"
    ) + "".join(f"; {name}: {value}" for name, value, *_ in declared)
    if resampled.cost.ratio is None:
        return f"{summary}."
    _, value, interval, over, method = cost_ratio(pair, resampled)
    where = "" if resampled.cost.pairs == pair.table.pairs else f" on {over} with both costs known"
    return (
        f"{summary}; ratio of cost{where} {value} (95 % interval {interval}, {method}, "
        f"{count(resampled.resamples)} resamples, seed {resampled.seed})."
    )


def _footnotes(report: Report, pair: Comparison) -> Iterator[str]:
    yield (
        "Paired test: p is twice the chance of a lead at least as large as the observed one, if "
        "the arms are alike and as many pairs differ as the data say. It is exact, without "
        "simulation. The interval holds all differences that the same test does not reject at "
        "5 %, so that p is below 0.05 exactly if the interval excludes 0."
    )
    if pair.has_repeats:
        yield (
            "The repeats of an instance are not taken for independent: how alike they are is "
            "estimated from the leads of the instances. Where few instances differ, they count as "
            "nearly alike, because the data cannot rule it out."
        )
    if _is_in_a_family(report):
        yield (
            "Holm: p-values adjusted over all comparisons that were declared beforehand, so "
            "that the chance of any false alarm among them stays at the level that they are read "
            "at; a declared comparison whose arm was dropped counts with p = 1."
        )
    if report.non_inferiority:
        yield (
            "Not worse by more than the margin: shown where the lower limit of the 95 % interval "
            "of the difference is above minus the margin, a one-sided test at 2.5 %. Not shown "
            "does not mean worse."
        )
