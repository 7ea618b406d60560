"""The answer in one sentence."""

from reports.format import p_value, percent, plural, points, ratio, usd
from reports.types import ArmSummary, Comparison, Report

LEVEL = 0.05
"""Above this p-value the sentence calls the difference indistinguishable from chance."""


def headline(report: Report) -> str:
    """Which arm resolves more, by how much, how sure that is, and what it costs."""
    if not any(arm.started for arm in report.arms):
        planned = sum(arm.planned for arm in report.arms)
        return f"Nothing has run yet: {plural(planned, 'cell')} planned."
    if not report.comparisons:
        return _one_arm(report.arms[0])
    first = report.comparisons[0]
    baseline, candidate = report.arm(first.baseline), report.arm(first.candidate)
    return f"{_resolution(first, baseline, candidate)}; {_cost(first, baseline, candidate)}."


def _one_arm(arm: ArmSummary) -> str:
    return (
        f"{arm.name} resolves {arm.resolved} of {arm.planned} ({percent(arm.rate)}, 95 % interval "
        f"{percent(arm.interval.low)} to {percent(arm.interval.high)}); with one arm there is "
        "nothing to compare it with."
    )


def _resolution(pair: Comparison, baseline: ArmSummary, candidate: ArmSummary) -> str:
    counts = (
        f"{candidate.resolved} of {candidate.planned} against {baseline.resolved} of "
        f"{baseline.planned}"
    )
    if pair.table.difference == 0:
        return f"{candidate.name} resolves as many as {baseline.name} ({counts}, {_chance(pair)})"
    direction = "more" if pair.table.difference > 0 else "fewer"
    size = points(abs(pair.table.difference)).lstrip("+")
    return (
        f"{candidate.name} resolves {size} percentage points {direction} than {baseline.name} "
        f"({counts}; {_chance(pair)})"
    )


def _chance(pair: Comparison) -> str:
    """The p-value, with that of the declared family where it corrects anything."""
    decisive = pair.decisive_p_value
    p = f"{pair.decisive} = {p_value(decisive)}"
    if pair.has_repeats:
        p = f"{p}, exact {p_value(pair.p_value)}"
    if pair.adjusted_p_value is not None and pair.adjusted_p_value > decisive:
        p, decisive = f"{p}, {p_value(pair.adjusted_p_value)} by Holm", pair.adjusted_p_value
    return p if decisive < LEVEL else f"{p}, not distinguishable from chance"


def _per_instance(arm: ArmSummary) -> str:
    bound = "at least " if arm.cost.is_lower_bound and arm.cost_per_instance is not None else ""
    return bound + usd(arm.cost_per_instance)


def _cost(pair: Comparison, baseline: ArmSummary, candidate: ArmSummary) -> str:
    amounts = f"{_per_instance(candidate)} against {_per_instance(baseline)} per instance"
    if pair.cost_ratio is None:
        return f"it costs {amounts}"
    where = "" if pair.priced_pairs == pair.table.pairs else f" on {pair.priced_pairs} priced pairs"
    return f"it costs {ratio(pair.cost_ratio)} as much{where} ({amounts})"
