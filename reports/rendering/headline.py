"""The main result in one sentence."""

from reports.format import (
    count,
    p_value,
    percent,
    plural,
    points,
    ratio,
    usd,
)
from reports.types import ArmSummary, Comparison, Report

LEVEL = 0.05
"""From this p-value on, the sentence calls the difference indistinguishable from chance."""


def headline(report: Report) -> str:
    """State the better arm, the size and certainty of its lead, and the costs."""
    if not any(arm.started for arm in report.arms):
        planned = sum(arm.planned for arm in report.arms)
        return f"Nothing has run yet: {plural(planned, 'cell')} planned."
    if not report.comparisons:
        return _one_arm(report.arms[0])
    first = report.comparisons[0]
    baseline, candidate = report.arm(first.baseline), report.arm(first.candidate)
    if not first.table.both and _share_nothing(report, baseline, candidate):
        return (
            f"{candidate.name} and {baseline.name} were run on different instances "
            f"({_counts(baseline, candidate)}): they share none to compare."
        )
    return f"{_resolution(first, baseline, candidate)}; {_cost(first)}."


def _share_nothing(report: Report, baseline: ArmSummary, candidate: ArmSummary) -> bool:
    """Return True if both arms ran and no instance was tried in both."""
    tried: dict[str, set[str]] = {baseline.name: set(), candidate.name: set()}
    for cell in report.cells:
        if cell.arm in tried and cell.attempt_id is not None:
            tried[cell.arm].add(cell.instance_id)
    first, second = tried.values()
    return bool(first and second) and first.isdisjoint(second)


def _one_arm(arm: ArmSummary) -> str:
    return (
        f"{arm.name} resolves {arm.resolved} of {arm.planned} ({percent(arm.rate)}, 95 % interval "
        f"{percent(arm.interval.low)} to {percent(arm.interval.high)}); there is "
        "no other arm to compare it with."
    )


def _resolution(pair: Comparison, baseline: ArmSummary, candidate: ArmSummary) -> str:
    table = pair.table
    counts = (
        f"{table.both + table.only_candidate} of {table.pairs} against "
        f"{table.both + table.only_baseline} of {table.pairs}"
    )
    if table.pairs < max(baseline.planned, candidate.planned):
        counts += " of the cells that both plan"
    if pair.table.difference == 0:
        return f"{candidate.name} resolves as many as {baseline.name} ({counts}, {_chance(pair)})"
    direction = "more" if pair.table.difference > 0 else "fewer"
    size = points(abs(pair.table.difference)).lstrip("+")
    return (
        f"{candidate.name} resolves {size} percentage points {direction} than {baseline.name} "
        f"({counts}; {_chance(pair)})"
    )


def _counts(baseline: ArmSummary, candidate: ArmSummary) -> str:
    return (
        f"{candidate.resolved} of {candidate.planned} against {baseline.resolved} of "
        f"{baseline.planned}"
    )


def _chance(pair: Comparison) -> str:
    """Format the p-value, with the family-adjusted one if that is higher."""
    decisive = pair.decisive_p_value
    p = f"{pair.decisive} = {p_value(decisive)}"
    if pair.has_repeats:
        p = f"{p}, exact {p_value(pair.p_value)}"
    if pair.adjusted_p_value is not None and pair.adjusted_p_value > decisive:
        p, decisive = f"{p}, {p_value(pair.adjusted_p_value)} by Holm", pair.adjusted_p_value
    return p if decisive < LEVEL else f"{p}, not distinguishable from chance"


def _cost(pair: Comparison) -> str:
    """Format both costs and their ratio, over the pairs with both costs known."""
    if not pair.priced_pairs:
        return "the cost ratio is unknown"
    candidate, baseline = (
        usd(cost / pair.priced_pairs) for cost in (pair.candidate_cost_usd, pair.baseline_cost_usd)
    )
    amounts = f"{candidate} against {baseline} per instance"
    is_all = pair.priced_pairs == pair.table.pairs
    where = "" if is_all else f" on the {priced(pair)} with both costs known"
    if pair.cost_ratio is None:
        return f"it costs {amounts}{where}"
    return f"it costs {ratio(pair.cost_ratio)} as much{where} ({amounts})"


def priced(pair: Comparison) -> str:
    """Format the number of pairs with both costs known, as a part of all pairs."""
    pairs = plural(pair.table.pairs, "pair")
    is_all = pair.priced_pairs == pair.table.pairs
    return pairs if is_all else f"{count(pair.priced_pairs)} of {pairs}"
