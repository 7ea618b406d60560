"""What does it cost?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.estimates import Estimate
from reports.format import count, mean, ratio, some, usd
from reports.relations import read_rows
from reports.rendering.drawing import (
    INK,
    Box,
    Figure,
    arm_colour,
    arm_rows,
    band_of,
    boxes,
    height_of,
    log_or_linear,
    usd_axis,
)
from reports.rendering.sections import Section
from reports.types import Amounts, ArmSummary, Comparison, Report, Resampled
from reports.wording import (
    BOOTSTRAP_T,
    BY_INSTANCE,
    UNLIMITED,
    Line,
    Show,
    cost_per_resolved,
    cost_ratio,
    estimate_line,
    format_difference,
    format_signed,
    interval_text,
    leading_arms,
    line_tables,
    of_pairs,
    positions,
    rank_arms,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from matplotlib.axes import Axes

DOTS, ALL_DOTS = 300, 1_200
"""Maximum number of costs shown one by one, for each arm and for all arms together."""

NONE_KNOWN = "No cost is known, so nothing about cost is compared or drawn."

_COSTS = """
    select arm, list(cost_usd order by instance_position, repeat) as costs
    from marts.cells
    where cost_usd is not null and arm in (select unnest($arms))
    group by arm
    having max(cost_usd) > 0
"""


def answer(connection: DuckDBPyConnection, report: Report) -> Section:
    """Return the costs of the leading pair, and their distribution over the cells."""
    amounts: list[Line] = []
    per_resolved: list[Line] = []
    if report.resampled:
        amounts = [*_list_amounts(report.comparisons[0], report.resampled)]
        per_resolved = [*_list_costs_per_resolved(report.comparisons[0], report.resampled)]
    return Section(
        "cost",
        "What does it cost?",
        _summarise(report),
        (
            *line_tables("Cost, tokens and time", amounts),
            *line_tables("Cost per resolved cell", per_resolved),
        ),
        _FOOTNOTES if amounts or per_resolved else (),
        figures=_draw(connection, report),
    )


def _summarise(report: Report) -> str:
    if all(arm.cost.usd is None for arm in report.arms):
        return NONE_KNOWN
    arms = "; ".join(map(_describe_arm, leading_arms(report)))
    if report.resampled is None:
        return f"{arms}."
    pair, resampled = report.comparisons[0], report.resampled
    if not pair.priced_pairs:
        return f"{arms}. The cost ratio is unknown: no pair has both costs."
    is_all = pair.priced_pairs == pair.table.pairs
    amounts = arms if is_all else "; ".join(_describe_pairs(pair, resampled))
    where = "" if is_all else f" on the {of_pairs(pair.priced_pairs, pair)} with both costs known"
    if pair.cost_ratio is None:
        sentence = f"The cost ratio is not defined{where}: {amounts}."
    else:
        _, value, interval, *_ = cost_ratio(pair, resampled)
        sentence = (
            f"{pair.candidate} costs {value} (95 % interval {interval}) as much as "
            f"{pair.baseline}{where}: {amounts}."
        )
    if is_all:
        return sentence
    if resampled.unknown_costs:
        bounds = interval_text(resampled.unknown_costs.ratio.bounds, ratio)
        sentence += (
            " With each unknown cost between its known part and the highest known cost of its arm, "
            f"the ratio is {bounds}."
        )
    return f"{sentence} Over all cells that ran: {arms}."


def _describe_pairs(pair: Comparison, resampled: Resampled) -> Iterator[str]:
    """Yield the cost of each arm on the compared pairs."""
    for name, usd_of_arm, per_resolved in (
        (pair.baseline, pair.baseline_cost_usd, resampled.baseline_cost_per_resolved),
        (pair.candidate, pair.candidate_cost_usd, resampled.candidate_cost_per_resolved),
    ):
        resolved = (
            f"{usd(per_resolved.value)} per resolved cell" if per_resolved else "none resolved"
        )
        yield f"{name} {usd(usd_of_arm / pair.priced_pairs)} per cell, {resolved}"


def _describe_arm(arm: ArmSummary) -> str:
    if arm.cost.is_unmetered:
        return f"{arm.name} was not metered (all its costs are 0)"
    if arm.cost.usd is None:
        return f"the cost of {arm.name} is unknown"
    per_resolved = cost_per_resolved(arm) + (" per resolved cell" if arm.resolved else "")
    cost = usd(arm.cost_per_instance, arm.cost.is_lower_bound)
    return f"{arm.name} {cost} per cell, {per_resolved}"


def _list_amounts(pair: Comparison, resampled: Resampled) -> Iterator[Line]:
    """Yield the lines of the amounts that are known for any pair."""
    kinds: tuple[tuple[str, Amounts, Show], ...] = (
        ("cost", resampled.cost, format_difference),
        (
            "tokens",
            resampled.tokens,
            lambda value: format_signed(value, lambda size: f"{size:,.0f}"),
        ),
        (
            "time",
            resampled.duration,
            lambda value: format_signed(value, lambda size: mean(size, " s")),
        ),
    )
    for name, amounts, show in kinds:
        if amounts.pairs:
            over, gap = of_pairs(amounts.pairs, pair), f"{name}, difference per cell"
            yield estimate_line(f"{name}, ratio", amounts.ratio, ratio, over)
            yield estimate_line(gap, amounts.difference, show, over, BOOTSTRAP_T)


def _list_costs_per_resolved(pair: Comparison, resampled: Resampled) -> Iterator[Line]:
    if not resampled.cost.pairs:
        return
    pairs = of_pairs(resampled.cost.pairs, pair)
    estimates: tuple[tuple[str, Estimate | None, Show, str], ...] = (
        (resampled.baseline, resampled.baseline_cost_per_resolved, usd, BOOTSTRAP_T),
        (resampled.candidate, resampled.candidate_cost_per_resolved, usd, BOOTSTRAP_T),
        ("ratio", resampled.ratio_of_costs_per_resolved, ratio, BY_INSTANCE),
    )
    for name, estimate, show, method in estimates:
        over = pairs
        if estimate and estimate.degenerate:
            total = count(resampled.resamples)
            over += f"; {count(estimate.degenerate)} of {total} resamples degenerate"
        yield estimate_line(name, estimate, show, over, method)


@dataclass(frozen=True)
class CostSpread:
    """The costs above 0 of one arm's cells, those included that are known only in part."""

    arm: str
    cells: int
    """Number of cells with a known cost."""
    least: float
    middle: float
    """The upper one of two medians."""
    most: float
    dots: tuple[float, ...]
    """All costs in the order of the cells or, of many, some of them evenly by rank."""


def read_costs(connection: DuckDBPyConnection, arms: Sequence[str]) -> tuple[CostSpread, ...]:
    """Read the costs of the arms that have any above 0, in the order of the names."""
    paid = {row["arm"]: row["costs"] for row in read_rows(connection, _COSTS, {"arms": list(arms)})}
    dots = max(2, min(DOTS, ALL_DOTS // max(1, len(paid))))
    spreads = []
    for arm in arms:
        if costs := paid.get(arm):
            ranks, last = sorted(costs), len(costs) - 1
            if len(costs) > dots:
                costs = [ranks[round(i * last / (dots - 1))] for i in range(dots)]
            middle = ranks[len(ranks) // 2]
            spreads.append(CostSpread(arm, len(ranks), ranks[0], middle, ranks[-1], tuple(costs)))
    return tuple(spreads)


def _draw(connection: DuckDBPyConnection, report: Report) -> tuple[Figure, ...]:
    """Draw the distribution of cost. Return no figure if no arm has a known cost."""
    arms = [arm.name for arm in rank_arms(report)]
    costs = read_costs(connection, arms)
    if not costs:
        return ()
    names, position = [spread.arm for spread in costs], positions(report)
    left_out = [arm for arm in arms if arm not in names]
    most = max(spread.cells for spread in costs)
    dots = max(len(spread.dots) for spread in costs)
    caption = "One dot per cell that ran" if most <= dots else f"At most {dots} dots an arm"
    caption += "; the box spans the middle half, its line is the median."
    if left_out:
        caption += f" Not drawn, without a known cost: {some(left_out)}."
    query = "from marts.spreads where amount = 'cost' and verdict = 'all' and cells >= 5"
    quartiles = {row["arm"]: row for row in read_rows(connection, query)}

    def draw(axes: Axes) -> None:
        band = band_of(names)
        for row, spread in enumerate(costs):
            _draw_dots(axes, row, spread.dots, arm_colour(position[spread.arm]), band)
        boxes(
            axes,
            [
                Box.of(quartiles[arm], row, INK, is_filled=False)
                for row, arm in enumerate(names)
                if arm in quartiles
            ],
            band,
        )
        arm_rows(axes, names)
        usd_axis(axes)
        log_or_linear(axes, [end for spread in costs for end in (spread.least, spread.most)])
        axes.grid(visible=True, axis="x")
        axes.set_xlabel("cost of one attempt, USD")

    ranges = [
        f"{spread.arm} from {usd(spread.least)} over {usd(spread.middle)} in the middle to "
        f"{usd(spread.most)}"
        for spread in costs
    ]
    return (
        Figure(
            "cost-spread",
            "Distribution of cost per cell",
            caption,
            f"Cost of single attempts: {'; '.join(ranges)}.",
            height_of(names, 1.5),
            draw,
        ),
    )


def _draw_dots(axes: Axes, row: int, dots: Sequence[float], colour: str, height: float) -> None:
    """Draw dots with a fixed jitter."""
    jitter = [row + 0.43 * height * (2 * ((i * 0.618034) % 1) - 1) for i in range(len(dots))]
    size, alpha = max(4.0, min(22.0, 900 / len(dots))), 0.75 if len(dots) < 60 else 0.45
    axes.scatter(dots, jitter, s=size, color=colour, alpha=alpha, linewidths=0)


_FOOTNOTES = (
    "Cost, tokens (input and output) and time are over the pairs in which both amounts are fully "
    "known; cost per resolved cell is all their cost, of unresolved ones too. A resample in which "
    "an arm resolves nothing is degenerate and counts as infinitely expensive. A limit is "
    f"{UNLIMITED} where too many resamples are degenerate, or where there is only one instance or "
    "repository to draw.",
    "Bootstrap-t: each resample is divided by its own standard error, which keeps the coverage "
    "for few instances with skewed costs. Differences have symmetric limits (Hall 1988); cost "
    "per resolved cell inverts the test (Fieller 1954; Hwang 1995).",
)
