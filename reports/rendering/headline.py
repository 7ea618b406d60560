"""The main result in one sentence."""

from collections.abc import Sequence
from math import isinf

from reports.analysis.best import Best, Rival, find_best, is_chosen_by_the_data
from reports.estimates import Interval
from reports.format import count, listing, p_value, percent, plural, points, ratio, usd
from reports.rendering.lines import interval_text
from reports.rendering.turning import CLEAR, LEVEL, turning
from reports.types import ArmSummary, Comparison, Report

NAMED = 2
"""Maximum number of arms that the sentence names as perhaps as good as the best one."""

ALIKE = 1.5
"""An interval of the ratio of cost that holds 1 and lies within this factor of it is called about
the same cost."""


def headline(report: Report) -> str:
    """Answer which arm is best, how sure that is and at which price, and what may turn it.

    A comparison that was declared or chosen is the answer. Otherwise it is the best arm against all
    others.
    """
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
    best = best_of_many(report)
    if best:
        return f"{_best(best)}{turning(report, best)}; {_price(report, best)}"
    result = _resolution(report, first, baseline, candidate)
    return f"{result}{turning(report)}; {_cost(report, first)}."


def best_of_many(report: Report) -> Best | None:
    """Return the best arm and its rivals if nothing but the data put the first pair there.

    Of two arms there is only one pair, and it needs no choice.
    """
    if not is_chosen_by_the_data(report.source, report.arms, report.comparisons):
        return None
    return find_best(report, report.arms)


def named_arms(report: Report) -> frozenset[str]:
    """Return the names of the arms that the headline may be about: a few more than it names."""
    pair = report.comparisons[0] if report.comparisons else None
    frontier = report.worth.frontier
    best = best_of_many(report)
    alike = best.as_good(LEVEL)[:NAMED] if best else ()
    return frozenset(
        [
            *((pair.baseline, pair.candidate) if pair else ()),
            *([frontier[0].arm] if best and frontier else ()),
            *(rival.arm.name for rival in alike),
        ]
    )


def price(report: Report, arm: ArmSummary) -> str | None:
    """Format the mean cost of an arm per instance, or return None if it has no place by cost."""
    known = (one for one in report.worth.arms if one.arm == arm.name)
    return next((usd(one.cost_usd, arm.cost.is_lower_bound) for one in known), None)


def compared(lead: float, value: float) -> str:
    """Say in words how an arm's lead and its p-value compare it with another one."""
    if value >= LEVEL:
        return "no difference seen"
    return f"{'clearly ' if value < CLEAR else ''}{'more' if lead > 0 else 'fewer'}"


def chance(value: float) -> str:
    """Format a p-value for a sentence."""
    return f"p < {CLEAR}" if value < CLEAR else f"p = {p_value(value)}"


def _best(best: Best) -> str:
    arm = best.arm
    most = (
        f"{arm.name} resolves most of {count(1 + len(best.rivals))} arms ({count(arm.resolved)} of "
        f"{count(arm.planned)}, {percent(arm.rate)})"
    )
    alike = best.as_good(LEVEL)
    if not alike:
        value = max(rival.p_value for rival in best.rivals)
        clearly = "clearly " if value < CLEAR else ""
        return f"{most}, {clearly}more than any other ({chance(value)})"
    return f"{most}, but {_names(alike)} may be as good"


def _names(rivals: Sequence[Rival]) -> str:
    named = [f"{rival.arm.name} ({percent(rival.arm.rate)})" for rival in rivals[:NAMED]]
    if len(rivals) > NAMED:
        named.append(plural(len(rivals) - NAMED, "other"))
    return listing(named)


def _price(report: Report, best: Best) -> str:
    """Return what the best arm costs, the next and the cheapest one, as the end of a sentence."""
    own, following = price(report, best.arm), price(report, best.next.arm)
    if own is None:
        return "what it costs is unknown."
    told = f"it costs {own} per instance"
    if following:
        told += f", {best.next.arm.name} {following}"
    frontier = report.worth.frontier
    cheapest = frontier[0].arm if frontier else best.arm.name
    if cheapest == best.arm.name:
        return f"{told}. No arm is known to be cheaper." if report.worth.left_out else f"{told}."
    rival = next(rival for rival in best.rivals if rival.arm.name == cheapest)
    if rival is best.next:
        return f"{told}, the cheapest arm."
    fewer = "perhaps as many" if rival.p_value >= LEVEL else compared(-rival.lead, rival.p_value)
    return (
        f"{told}. {cheapest}, the cheapest arm, costs {price(report, rival.arm)} and resolves "
        f"{fewer} ({percent(rival.arm.rate)})."
    )


def _share_nothing(report: Report, baseline: ArmSummary, candidate: ArmSummary) -> bool:
    """Return True if both arms ran and no cell was tried in both."""
    has_run = baseline.started and candidate.started
    return bool(has_run and report.resampled and not report.resampled.pairs_run)


def _one_arm(arm: ArmSummary) -> str:
    return (
        f"{arm.name} resolves {arm.resolved} of {arm.planned} ({percent(arm.rate)}, 95 % interval "
        f"{percent(arm.interval.low)} to {percent(arm.interval.high)}); there is "
        "no other arm to compare it with."
    )


def _resolution(
    report: Report, pair: Comparison, baseline: ArmSummary, candidate: ArmSummary
) -> str:
    table = pair.table
    counts = (
        f"{table.both + table.only_candidate} of {table.pairs} against "
        f"{table.both + table.only_baseline} of {table.pairs}"
    )
    if table.pairs < max(baseline.planned, candidate.planned):
        counts += " of the cells that both plan"
    value, family = pair.p_value, ""
    if pair.adjusted_p_value is not None and pair.adjusted_p_value > value:
        value, family = pair.adjusted_p_value, " by Holm over the declared comparisons"
    p = f"{chance(value)}{family}"
    if value < LEVEL:
        size = points(abs(table.difference)).lstrip("+")
        told = (
            f"{candidate.name} resolves {compared(table.difference, value)} than "
            f"{baseline.name}: {counts} ({size} points, {p})"
        )
    else:
        told = (
            f"No difference seen between {candidate.name} and {baseline.name}: {counts} ({p}); "
            f"{_shows(pair)}"
        )
    return told + _margin(report)


def _shows(pair: Comparison) -> str:
    """Say how large a difference must be so that the test shows it: half of the interval."""
    width = (pair.interval.high - pair.interval.low) / 2
    instances = plural(pair.leads.instances, "instance")
    return f"{instances} can show only differences above {points(width).lstrip('+')} points"


def _margin(report: Report) -> str:
    judged = report.non_inferiority
    if judged is None:
        return ""
    size = points(judged.margin).lstrip("+")
    return (
        f"; that {judged.candidate} is not worse by more than {size} points is "
        f"{'' if judged.is_shown else 'not '}shown"
    )


def _counts(baseline: ArmSummary, candidate: ArmSummary) -> str:
    return (
        f"{candidate.resolved} of {candidate.planned} against {baseline.resolved} of "
        f"{baseline.planned}"
    )


def _cost(report: Report, pair: Comparison) -> str:
    """Compare both costs over the pairs with both costs known."""
    if not pair.priced_pairs:
        return "which costs more is unknown"
    candidate, baseline = (
        usd(cost / pair.priced_pairs) for cost in (pair.candidate_cost_usd, pair.baseline_cost_usd)
    )
    amounts = f"{candidate} against {baseline} per instance"
    is_all = pair.priced_pairs == pair.table.pairs
    where = "" if is_all else f" on the {priced(pair)} with both costs known"
    if pair.cost_ratio is None:
        return f"{pair.candidate} costs {amounts}{where}"
    estimate = report.resampled and report.resampled.cost.ratio
    interval = estimate.interval if estimate else Interval(0, float("inf"))
    if isinf(interval.high) or interval.low <= 1 <= interval.high:
        is_alike = interval.low >= 1 / ALIKE and interval.high <= ALIKE
        told = "both cost about the same" if is_alike else "which costs more cannot be told"
        return f"{told}{where} ({amounts})"
    unknown = report.resampled and report.resampled.unknown_costs
    bounds = unknown.ratio.bounds if unknown else None
    turned = ""
    if bounds and bounds.low <= 1 <= bounds.high:
        turned = f", which unknown costs could turn ({interval_text(bounds, ratio)})"
    return f"{pair.candidate} costs {ratio(pair.cost_ratio)} as much{where} ({amounts}){turned}"


def priced(pair: Comparison) -> str:
    """Format the number of pairs with both costs known, as a part of all pairs."""
    pairs = plural(pair.table.pairs, "pair")
    is_all = pair.priced_pairs == pair.table.pairs
    return pairs if is_all else f"{count(pair.priced_pairs)} of {pairs}"
