"""The main result in one sentence."""

from collections.abc import Iterator

from reports.format import (
    count,
    p_value,
    percent,
    plural,
    points,
    ratio,
    usd,
)
from reports.rendering.lines import interval_text
from reports.statistics import PairedTest
from reports.types import ArmSummary, Comparison, InstanceLeads, PairedTable, Report

LEVEL = 0.05
"""From this p-value on, the sentence calls a difference possibly chance."""

CLEAR = 0.001
"""Below this p-value, the sentence calls a difference clear."""


def headline(report: Report) -> str:
    """State the better arm, the size and certainty of its lead, the costs, and what may turn it."""
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
    resolution = _lead if _leads(report, first) else _resolution
    result = resolution(report, first)
    turned = "".join(f", {clause}" for clause in _turning(report, first))
    return f"{result}{turned}; {_cost(report, first)}.{_cheapest(report, first)}"


def _leads(report: Report, pair: Comparison) -> bool:
    """Return True if the pair is the best arm and the next one of several, chosen by the data."""
    contenders = _contenders(report)
    best = report.arm(pair.candidate)
    is_best = pair.table.difference >= 0 and all(arm.rate <= best.rate for arm in contenders)
    return pair.role == "exploratory" and len(contenders) > 2 and is_best


def _contenders(report: Report) -> list[ArmSummary]:
    return [arm for arm in report.arms if arm.started and not arm.is_control]


def _lead(report: Report, pair: Comparison) -> str:
    """State the best arm and its lead over the next one."""
    best, following = report.arm(pair.candidate), report.arm(pair.baseline)
    start = (
        f"{best.name} resolves most of {count(len(_contenders(report)))} arms "
        f"({count(best.resolved)} of {count(best.planned)}, {percent(best.rate)}). "
    )
    p, value = _chance(pair)
    counts = f"{_counts_of_pairs(pair, best, following)}, {p}"
    possible = f"{interval_text(pair.interval, points)} points are possible"
    if pair.table.difference == 0:
        return f"{start}{following.name} resolves as many ({counts}; {possible})"
    size = points(abs(pair.table.difference)).lstrip("+")
    lead = f"{start}Its lead over {following.name}, the next,"
    if value < CLEAR:
        return f"{lead} is clear: {size} percentage points ({counts})"
    if value < LEVEL:
        return f"{lead} is {size} percentage points ({counts})"
    return f"{lead} may be chance: {size} percentage points ({counts}; {possible})"


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


def _resolution(report: Report, pair: Comparison) -> str:
    baseline, candidate, table = report.arm(pair.baseline), report.arm(pair.candidate), pair.table
    counts = _counts_of_pairs(pair, candidate, baseline)
    p, value = _chance(pair)
    possible = f"{interval_text(pair.interval, points)} points are possible"
    if table.difference == 0:
        return f"{candidate.name} resolves as many as {baseline.name} ({counts}, {p}; {possible})"
    size = points(abs(table.difference)).lstrip("+")
    direction = "more" if table.difference > 0 else "fewer"
    how = f"{'clearly ' if value < CLEAR else ''}{direction}"
    if value < LEVEL:
        return (
            f"{candidate.name} resolves {how} than {baseline.name}: {size} percentage points "
            f"({counts}, {p})"
        )
    return (
        f"{candidate.name} resolves {how} than {baseline.name}, which may be chance: {size} "
        f"percentage points ({counts}, {p}; {possible})"
    )


def _counts_of_pairs(pair: Comparison, candidate: ArmSummary, baseline: ArmSummary) -> str:
    table = pair.table
    counts = (
        f"{table.both + table.only_candidate} of {table.pairs} against "
        f"{table.both + table.only_baseline} of {table.pairs}"
    )
    if table.pairs < max(baseline.planned, candidate.planned):
        counts += " of the cells that both plan"
    return counts


def _counts(baseline: ArmSummary, candidate: ArmSummary) -> str:
    return (
        f"{candidate.resolved} of {candidate.planned} against {baseline.resolved} of "
        f"{baseline.planned}"
    )


def _chance(pair: Comparison) -> tuple[str, float]:
    """Return the p-value of a pair in words and as a number.

    It is adjusted for the declared comparisons or, where the data chose the pair, for all pairs.
    """
    value, among = pair.p_value, ""
    if pair.adjusted_p_value is not None and pair.adjusted_p_value > value:
        value, among = pair.adjusted_p_value, " by Holm over the declared comparisons"
    elif pair.role == "exploratory" and (pair.holm_p_value or 0) > value:
        value, among = pair.holm_p_value or 0, " by Holm over all pairs"
    shown = f"p < {CLEAR}" if value < CLEAR else f"p = {p_value(value)}"
    return f"{shown}{among}", value


def _turning(report: Report, pair: Comparison) -> Iterator[str]:
    """Yield a clause for each analysis that would turn the conclusion on resolution."""
    resampled = report.resampled
    if resampled is None:
        return
    sign = _sign(pair.table, _chance(pair)[1])
    others: tuple[tuple[str, PairedTable, InstanceLeads], ...] = (
        ("lost cells", resampled.complete, resampled.complete_leads),
        ("suspect verdicts", resampled.trusted, resampled.trusted_leads),
    )
    for what, table, leads in others:
        if not table.pairs or table == pair.table:
            continue
        value = PairedTest(table, leads).p_value()
        if _sign(table, value) == sign:
            continue
        rest = f"it is {points(table.difference)} points (p = {p_value(value)}"
        rest += f", {plural(table.pairs, 'pair')})" if table.pairs < pair.table.pairs else ")"
        counted = "count as not resolved" if what == "lost cells" else "count"
        if sign:
            yield f"but only if {what} {counted}: without them {rest}"
        else:
            yield f"but without {what} {rest}"


def _sign(table: PairedTable, value: float) -> int:
    """Return the direction of a difference, or 0 if it may be chance."""
    if value >= LEVEL:
        return 0
    return 1 if table.difference > 0 else -1


def _cost(report: Report, pair: Comparison) -> str:
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
    estimate = report.resampled and report.resampled.cost.ratio
    if pair.cost_ratio == 1:
        return f"it costs the same{where} ({amounts})"
    if estimate and estimate.interval.low <= 1 <= estimate.interval.high:
        limits = interval_text(estimate.interval, ratio)
        return (
            f"a difference in cost is not shown{where} ({ratio(pair.cost_ratio)}, 95 % interval "
            f"{limits}; {amounts})"
        )
    unknown = report.resampled and report.resampled.unknown_costs
    bounds = unknown.ratio.bounds if unknown else None
    turned = ""
    if bounds and bounds.low <= 1 <= bounds.high:
        turned = f", which unknown costs could turn ({interval_text(bounds, ratio)})"
    return f"it costs {ratio(pair.cost_ratio)} as much{where} ({amounts}){turned}"


def _cheapest(report: Report, pair: Comparison) -> str:
    """Return a sentence on the cheapest arm that is on the frontier, if the best arm leads."""
    frontier = report.worth.frontier
    if (
        not _lead(report, pair)
        or not frontier
        or frontier[0].arm in (pair.baseline, pair.candidate)
    ):
        return ""
    cheapest, best = report.arm(frontier[0].arm), report.arm(pair.candidate)
    known = {arm.arm: arm.cost_usd for arm in report.worth.arms}
    if best.name not in known:
        return ""
    size = points(best.rate - cheapest.rate).lstrip("+")
    return (
        f" {cheapest.name}, the cheapest arm on the frontier, resolves {percent(cheapest.rate)}, "
        f"{size} points fewer, for {usd(known[cheapest.name])} per cell against "
        f"{usd(known[best.name])}."
    )


def priced(pair: Comparison) -> str:
    """Format the number of pairs with both costs known, as a part of all pairs."""
    pairs = plural(pair.table.pairs, "pair")
    is_all = pair.priced_pairs == pair.table.pairs
    return pairs if is_all else f"{count(pair.priced_pairs)} of {pairs}"
