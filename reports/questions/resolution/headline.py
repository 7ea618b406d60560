"""The main result in one sentence, and what would turn its conclusion."""

from collections.abc import Callable, Iterator, Sequence
from math import isinf

from reports.analysis.best import NAMED, Best, Rival, best_of_many
from reports.estimates import InstanceLeads, Interval, PairedTable
from reports.format import count, listing, p_value, percent, percents, plural, points, ratio, usd
from reports.statistics.paired import PairedTest
from reports.types import WITHOUT_VERDICT, ArmSummary, Comparison, Report
from reports.wording import CLEAR, LEVEL, interval_text, of_pairs, price

ALIKE = 1.5
"""An interval of the ratio of cost that holds 1 and lies within this factor of it is called about
the same cost."""


def conclude(report: Report) -> str:
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
        return f"{_best(best)}{_turning(report, best)}; {_price(report, best)}"
    result = _resolution(report, first, baseline, candidate)
    return f"{result}{_turning(report)}; {_cost(report, first)}."


def compare(lead: float, value: float) -> str:
    """Say in words how an arm's lead and its p-value compare it with another one."""
    if value >= LEVEL:
        return "no difference seen"
    return f"{'clearly ' if value < CLEAR else ''}{'more' if lead > 0 else 'fewer'}"


def show_chance(value: float) -> str:
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
        return f"{most}, {clearly}more than any other ({show_chance(value)})"
    return f"{most}, but {_names(alike)} may be as good"


def _names(rivals: Sequence[Rival]) -> str:
    named = [f"{rival.arm.name} ({percent(rival.arm.rate)})" for rival in rivals[:NAMED]]
    if len(rivals) > NAMED:
        named.append(plural(len(rivals) - NAMED, "other"))
    return listing(named)


def _price(report: Report, best: Best) -> str:
    """Return what the best arm costs, the next and the cheapest one, as the end of a sentence."""
    own, following = price(report.worth, best.arm), price(report.worth, best.next.arm)
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
    fewer = "perhaps as many" if rival.p_value >= LEVEL else compare(-rival.lead, rival.p_value)
    least = price(report.worth, rival.arm)
    return (
        f"{told}. {cheapest}, the cheapest arm, costs {least} and resolves {fewer} "
        f"({percent(rival.arm.rate)})."
    )


def _share_nothing(report: Report, baseline: ArmSummary, candidate: ArmSummary) -> bool:
    """Return True if both arms ran and no cell was tried in both."""
    has_run = baseline.started and candidate.started
    return bool(has_run and report.resampled and not report.resampled.pairs_run)


def _one_arm(arm: ArmSummary) -> str:
    return (
        f"{arm.name} resolves {arm.resolved} of {arm.planned} ({percent(arm.rate)}, 95 % interval "
        f"{percents(arm.interval)}); there is "
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
    p = f"{show_chance(value)}{family}"
    if value < LEVEL:
        size = points(abs(table.difference)).lstrip("+")
        told = (
            f"{candidate.name} resolves {compare(table.difference, value)} than "
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
    where = "" if is_all else f" on the {of_pairs(pair.priced_pairs, pair)} with both costs known"
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


def _turning(report: Report, best: Best | None = None) -> str:
    """Return a clause for each analysis that would turn the conclusion on resolution.

    `best` is given if the conclusion is that this arm is the best of several. Otherwise it is that
    of the first comparison. A conclusion turns if another arm leads, if a difference is no longer
    shown, or if it is shown only then.
    """
    clauses = [*_turning_pair(report, best), *(_turning_best(best) if best else ())]
    return "".join(f", {clause}" for clause in clauses)


def _turning_pair(report: Report, best: Best | None) -> Iterator[str]:
    """Yield a clause for the first comparison without lost cells and without suspect verdicts."""
    resampled = report.resampled
    if resampled is None:
        return
    pair, comparisons = report.comparisons[0], len(best.rivals) if best else 1
    value = pair.p_value if pair.adjusted_p_value is None else pair.adjusted_p_value
    sign = _sign(pair.table, comparisons * value)
    lost = _name_lost_cells(report.arm(pair.baseline), report.arm(pair.candidate))
    others: tuple[tuple[str, str, PairedTable, InstanceLeads], ...] = (
        (lost, "failures", resampled.complete, resampled.complete_leads),
        ("suspect verdicts", "resolved", resampled.trusted, resampled.trusted_leads),
    )
    for what, counted, table, leads in others:
        if not table.pairs or table == pair.table:
            continue
        value = PairedTest(table, leads).p_value()
        if _sign(table, comparisons * value) == sign:
            continue
        against = f" against {pair.baseline}" if best else ""
        rest = f"it is {points(table.difference)} points{against} (p = {p_value(value)}"
        rest += f", {plural(table.pairs, 'pair')})" if table.pairs < pair.table.pairs else ")"
        if sign:
            yield f"but only if {what} count as {counted}: without them {rest}"
        else:
            yield f"but without {what} {rest}"


def _turning_best(best: Best) -> Iterator[str]:
    """Yield a clause for each other way to count with which a worse arm would be the best."""
    worse = [rival.arm for rival in best.rivals if rival.p_value < LEVEL]
    ways: tuple[tuple[str, Callable[[ArmSummary], float]], ...] = (
        ("of the cells with a verdict", _rate_of_graded),
        ("without suspect verdicts", lambda arm: (arm.resolved - arm.suspect) / arm.planned),
    )
    for where, rate in ways:
        leader = max(worse, key=rate, default=best.arm)
        if rate(leader) > rate(best.arm):
            yield (
                f"but {where} {leader.name} resolves more ({percent(rate(leader))} against "
                f"{percent(rate(best.arm))})"
            )


def _rate_of_graded(arm: ArmSummary) -> float:
    """Return the resolved share of the cells with a verdict, which is at least `arm.rate`.

    Without a verdict for half of the cells, it would be that of very few, and is not used.
    """
    graded = arm.planned - sum(arm.states[state] for state in WITHOUT_VERDICT)
    return arm.resolved / graded if 2 * graded >= arm.planned else arm.rate


def _name_lost_cells(*arms: ArmSummary) -> str:
    """Return what to call the cells of these arms that have no verdict."""
    lost = {state for state in WITHOUT_VERDICT if any(arm.states[state] for arm in arms)}
    return "stopped cells" if lost == {"stopped"} else "lost cells"


def _sign(table: PairedTable, value: float) -> int:
    """Return the direction of a difference, or 0 if it may be chance."""
    if value >= LEVEL:
        return 0
    return 1 if table.difference > 0 else -1
