"""Words and numbers on arms and pairs of arms that several questions show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isinf

from reports.economics import Worth
from reports.estimates import Estimate, Interval
from reports.format import (
    DASH,
    UNKNOWN,
    count,
    listing,
    of,
    p_value,
    plural,
    points,
    ratio,
    some,
    some_names,
    usd,
)
from reports.rendering.sections import Table, TableCell, Text
from reports.types import (
    AnalysisPlan,
    ArmSummary,
    Comparison,
    Provenance,
    Report,
    Resampled,
)

TRAJECTORIES = "trajectories"
"""Folder next to the page of a report, with a page for each attempt that it links to."""

CLEAR = 0.001
"""Below this p-value, a difference is clear."""

MANY_ARMS = 6
"""Above this number of arms, a table has arms as rows and never as columns."""

UNMETERED = "unmetered"
"""Shown for an arm that made model calls at a cost of 0 each."""

UNLIMITED = "unlimited"
"""Shown in place of an infinite limit."""

PAIRED = "paired test"
"""Method of a difference, its interval and its p-value."""

BY_INSTANCE = "bootstrap by instance"
BY_REPOSITORY = "bootstrap by repository"
BOOTSTRAP_T = "bootstrap-t by instance"

REPLACED = (
    "Unknown costs: each cost that is not fully known is put at the mean or at the maximum of "
    "the known costs of its arm. Bounds: each is between its known part and this maximum, in both "
    "arms alike or not. They hold if no unknown cost is above the highest known one (Little and "
    "Rubin 2019; Manski 2003)."
)
"""Explanation of replaced costs."""

Show = Callable[[float], str]

Line = tuple[str, str, str, str, str]
"""A number of a pair: its name, value, two-sided 95 % interval, what it is over, and its method."""


def estimate_line(
    name: str, estimate: Estimate | None, show: Show, over: str, method: str = BY_INSTANCE
) -> Line:
    """Return an estimate with its interval, with dashes if there is none."""
    if estimate is None:
        return name, DASH, DASH, over, method
    return name, show(estimate.value), interval_text(estimate.interval, show), over, method


def line_tables(title: str, lines: Iterable[Line]) -> tuple[Table, ...]:
    """Return the table of some numbers of a pair, or nothing if there are none."""
    header = (title, "value", "95 % interval", "over", "method")
    rows = tuple(lines)
    return (Table("", header, rows, remarks=2, style="numbers"),) if rows else ()


def interval_text(interval: Interval, show: Show) -> str:
    """Format both limits, or one word if both are infinite."""
    if isinf(interval.low) and isinf(interval.high):
        return UNLIMITED
    limits = (UNLIMITED if isinf(limit) else show(limit) for limit in (interval.low, interval.high))
    return " to ".join(limits)


def format_signed(difference: float, show: Show) -> str:
    """Format with the sign before the unit. Zero, up to rounding errors, has no sign."""
    rounded = round(difference, 9)
    sign = "+" if rounded > 0 else "\N{MINUS SIGN}" if rounded < 0 else ""
    return f"{sign}{show(abs(rounded))}"


def format_difference(amount: float) -> str:
    """Format a difference of costs."""
    return format_signed(amount, usd)


def format_signed_usd(amount: float) -> str:
    """Format a net benefit, with a sign if it is below zero."""
    return usd(amount) if amount >= 0 else f"\N{MINUS SIGN}{usd(-amount)}"


def rank_arms(report: Report) -> tuple[ArmSummary, ...]:
    """Return the arms by resolution rate, best first. Equal arms keep their declared order."""
    return tuple(sorted(report.arms, key=lambda arm: -arm.rate))


def positions(report: Report) -> dict[str, int]:
    """Return the declared position of each arm, which decides its colour and marker."""
    return {arm.name: position for position, arm in enumerate(report.arms)}


def leading_arms(report: Report) -> tuple[ArmSummary, ...]:
    """Return the arms of the leading pair, or all arms without a pair."""
    if not report.comparisons:
        return report.arms
    pair = report.comparisons[0]
    return report.arm(pair.baseline), report.arm(pair.candidate)


def describe_silence(arms: Sequence[ArmSummary]) -> str:
    """Say that arms had no answer of their model, with the reason of the first one."""
    unanswered, planned = (
        sum(getattr(arm, name) for arm in arms) for name in ("unanswered", "planned")
    )
    one = len(arms) == 1
    return (
        f"{'Arm' if one else 'Arms'} {some_names(arm.name for arm in arms)} got no answer from "
        f"{'its' if one else 'their'} model in {count(unanswered)} of {plural(planned, 'cell')}: "
        f"{(arms[0].unanswered_because or UNKNOWN).rstrip('.')}."
    )


def total_cost(arm: ArmSummary) -> str:
    """Format the cost of all of the arm's cells."""
    return _amount(arm, arm.cost.usd)


def cost_per_cell(arm: ArmSummary) -> str:
    """Format the mean cost of the cells that ran, with their number if it is not that planned."""
    return of(_amount(arm, arm.cost_per_instance), arm.started, arm.planned)


def cost_per_resolved(arm: ArmSummary) -> str:
    """Format the arm's cost per resolved cell, or state that none is resolved."""
    if arm.resolved == 0:
        return "none resolved"
    return _amount(arm, arm.cost_per_resolved)


def _amount(arm: ArmSummary, amount: float | None) -> str:
    return UNMETERED if arm.cost.is_unmetered else usd(amount, arm.cost.is_lower_bound)


def price(worth: Worth, arm: ArmSummary) -> str | None:
    """Format the mean cost of an arm per instance, or return None if it has no place by cost."""
    costs = (place.cost_usd for place in worth.arms if place.arm == arm.name)
    return next((usd(cost, arm.cost.is_lower_bound) for cost in costs), None)


def of_pairs(known: int, pair: Comparison) -> str:
    """Format the number of pairs with both amounts known, as a part of all if only some are."""
    if known in (0, pair.table.pairs):
        return plural(known, "pair")
    return f"{count(known)} of {plural(pair.table.pairs, 'pair')}"


def format_adjusted_p(pair: Comparison) -> str:
    """Format the p-value within the declared family, or a dash for an undeclared comparison."""
    return DASH if pair.adjusted_p_value is None else p_value(pair.adjusted_p_value)


def list_comparisons(plan: AnalysisPlan) -> str:
    """Return the declared comparisons as text for a reader."""
    if plan.primary is None:
        return "none"
    first, *family = [f"{candidate} against {baseline}" for baseline, candidate in plan.comparisons]
    margin = "" if plan.margin is None else f" with a margin of {size(plan.margin)}"
    others = f", family {listing(family)}" if family else ""
    return f"primary {first}{margin}{others}"


def size(margin: float) -> str:
    """Format a margin in percentage points."""
    return f"{points(margin).lstrip('+')} points"


def list_resources(source: Provenance) -> str:
    """Format the limits that containers had: one set, or several."""
    sets = []
    for limits in source.resources:
        if limits.memory_gb is None:
            sets.append(f"{UNKNOWN} (recorded by an older release)")
        else:
            processors = "processor" if limits.cpus == 1 else "processors"  # may be a fraction
            sets.append(
                f"{limits.memory_gb:.3g} GB of memory, {limits.cpus:.3g} {processors}, "
                f"{plural(limits.pids or 0, 'process', 'processes')} and "
                f"{limits.disk_gb or 0:.3g} GB of disk"
            )
    return some(sets, "; or ")


def cost_ratio(pair: Comparison, resampled: Resampled) -> Line:
    """Return the candidate's cost over the baseline's."""
    over = of_pairs(resampled.cost.pairs, pair)
    return estimate_line("cost, ratio", resampled.cost.ratio, ratio, over)


def name_instance(report: Report, instance: str, repeat: int) -> Text:
    """Return an instance, with its repeat if there are several."""
    return TableCell(instance, quiet=f"#{repeat}") if report.source.repeats > 1 else instance


def link_cell(report: Report, attempt_id: str | None) -> Text:
    """Return a link to the trajectory of an attempt, if there is one."""
    if attempt_id is None:
        return TableCell("", quiet="not run")
    if attempt_id not in report.trajectories:
        return TableCell("", quiet="no trajectory")
    hint = f"durabench trace {attempt_id}"
    return TableCell(attempt_id[:12], link=address_of(attempt_id), hint=hint)


def address_of(attempt_id: str) -> str:
    """Return the address of an attempt's page within the folder of the report."""
    return f"{TRAJECTORIES}/{attempt_id}.html"
