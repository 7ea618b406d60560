"""The main result in one sentence, with the analyses that would turn its conclusion."""

from collections.abc import Callable, Iterator
from math import isinf

from reports.analysis.best import NAMED, Best, best_of_many
from reports.estimates import LEVEL, InstanceLeads, Interval, PairedTable
from reports.format import count, listing, p_value, percent, percents, plural, points, ratio, usd
from reports.statistics.paired import PairedTest
from reports.types import STATES, WITHOUT_VERDICT, ArmSummary, Comparison, Report
from reports.wording import CLEAR, describe_silence, interval_text, of_pairs, price

ALIKE = 1.5
"""An interval of the ratio of cost that holds 1 and lies within this factor of it is called about
the same cost."""


def conclude(report: Report) -> str:
    """Answer which arm is best, how sure that is and at which price, and name what can turn it.

    A comparison that was declared or chosen is the answer. Otherwise it is the best arm against all
    others.
    """
    if not any(arm.started for arm in report.arms):
        planned = sum(arm.planned for arm in report.arms)
        return f"Nothing has run yet: {plural(planned, 'cell')} planned."
    silent = [arm for arm in report.arms if not arm.has_answers]
    if silent:
        pairs = f" {_conclude_pairs(report)}" if report.comparisons else ""
        return describe_silence(silent) + pairs
    return _conclude_pairs(report)


def _conclude_pairs(report: Report) -> str:
    if not report.comparisons:
        arm = report.arms[0]
        return (
            f"{arm.name} resolves {arm.resolved} of {arm.planned} ({percent(arm.rate)}, 95 % "
            f"interval {percents(arm.interval)}); there is no other arm to compare it with."
        )
    first = report.comparisons[0]
    baseline, candidate = report.arm(first.baseline), report.arm(first.candidate)
    have_run = baseline.started and candidate.started
    is_apart = have_run and report.resampled and not report.resampled.pairs_run
    if is_apart and not first.table.both:
        return (
            f"{candidate.name} and {baseline.name} were run on different instances "
            f"({candidate.resolved} of {candidate.planned} against {baseline.resolved} of "
            f"{baseline.planned}): they share none to compare."
        )
    if have_run and report.resampled and not report.resampled.complete.pairs:
        return _explain_no_pair(first, baseline, candidate)
    best = best_of_many(report)
    conclusion = _compare_best(best) if best else _compare_pair(report, first)
    clauses = [*_turn_pair(report, best), *(_turn_best(best) if best else ())]
    turning = "".join(f", {clause}" for clause in clauses)
    price = _price_best(report, best) if best else f"{_price_pair(report, first)}."
    return f"{conclusion}{turning}; {price}"


def _explain_no_pair(pair: Comparison, *arms: ArmSummary) -> str:
    """Say why no pair of cells was compared."""
    numbers = {
        name: sum(arm.states[state] for arm in arms)
        for state, name in STATES.items()
        if state in WITHOUT_VERDICT
    }
    lost = listing([f"{count(number)} {name}" for name, number in numbers.items() if number])
    return (
        f"{pair.candidate} and {pair.baseline} were not compared: no instance has a verdict on "
        f"both ({lost} of {plural(sum(arm.planned for arm in arms), 'cell')})."
    )


def compare(lead: float, value: float) -> str:
    """Say in words how an arm's lead and its p-value compare it with another one."""
    if value >= LEVEL:
        return "no difference seen"
    return f"{'clearly ' if value < CLEAR else ''}{'more' if lead > 0 else 'fewer'}"


def show_chance(value: float) -> str:
    """Format a p-value for a sentence."""
    return f"p < {CLEAR}" if value < CLEAR else f"p = {p_value(value)}"


def _compare_best(best: Best) -> str:
    arm = best.arm
    sentence = (
        f"{arm.name} resolves most of {count(1 + len(best.rivals))} arms ({count(arm.resolved)} of "
        f"{count(arm.planned)}, {percent(arm.rate)})"
    )
    alike = best.as_good(LEVEL)
    if not alike:
        value = max(rival.p_value for rival in best.rivals)
        clearly = "clearly " if value < CLEAR else ""
        return f"{sentence}, {clearly}more than any other ({show_chance(value)})"
    names = [f"{rival.arm.name} ({percent(rival.arm.rate)})" for rival in alike[:NAMED]]
    if len(alike) > NAMED:
        names.append(plural(len(alike) - NAMED, "other"))
    return f"{sentence}, but {listing(names)} may be as good"


def _price_best(report: Report, best: Best) -> str:
    """Return the cost of the best arm, the next and the cheapest one, as the end of a sentence."""
    cost, following = price(report.worth, best.arm), price(report.worth, best.next.arm)
    if cost is None:
        return "what it costs is unknown."
    text = f"it costs {cost} per instance"
    if following:
        text += f", {best.next.arm.name} {following}"
    frontier = report.worth.frontier
    cheapest = frontier[0].arm if frontier else best.arm.name
    if cheapest == best.arm.name:
        return f"{text}. No arm is known to be cheaper." if report.worth.left_out else f"{text}."
    rival = next(rival for rival in best.rivals if rival.arm.name == cheapest)
    if rival is best.next:
        return f"{text}, the cheapest arm."
    fewer = "perhaps as many" if rival.p_value >= LEVEL else compare(-rival.lead, rival.p_value)
    least = price(report.worth, rival.arm)
    return (
        f"{text}. {cheapest}, the cheapest arm, costs {least} and resolves {fewer} "
        f"({percent(rival.arm.rate)})."
    )


def _compare_pair(report: Report, pair: Comparison) -> str:
    table = pair.table
    counts = (
        f"{table.both + table.only_candidate} of {table.pairs} against "
        f"{table.both + table.only_baseline} of {table.pairs}"
    )
    planned = max(report.arm(pair.baseline).planned, report.arm(pair.candidate).planned)
    if table.pairs < planned:
        counts += " of the cells that both plan"
    value, family = pair.p_value, ""
    if pair.adjusted_p_value is not None and pair.adjusted_p_value > value:
        value, family = pair.adjusted_p_value, " by Holm over the declared comparisons"
    p = f"{show_chance(value)}{family}"
    if value < LEVEL:
        size = points(abs(table.difference)).lstrip("+")
        text = (
            f"{pair.candidate} resolves {compare(table.difference, value)} than "
            f"{pair.baseline}: {counts} ({size} points, {p})"
        )
    else:
        # The test shows a difference of half of the interval.
        width = points((pair.interval.high - pair.interval.low) / 2).lstrip("+")
        text = (
            f"No difference seen between {pair.candidate} and {pair.baseline}: {counts} ({p}); "
            f"{plural(pair.leads.instances, 'instance')} can show only differences above "
            f"{width} points"
        )
    if judged := report.non_inferiority:
        margin = points(judged.margin).lstrip("+")
        text += f"; that {judged.candidate} is not worse by more than {margin} points is "
        text += "shown" if judged.is_shown else "not shown"
    return text


def _price_pair(report: Report, pair: Comparison) -> str:
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
        text = "both cost about the same" if is_alike else "the data do not show which costs more"
        return f"{text}{where} ({amounts})"
    text = f"{pair.candidate} costs {ratio(pair.cost_ratio)} as much{where} ({amounts})"
    unknown = report.resampled and report.resampled.unknown_costs
    if unknown and unknown.ratio.bounds.low <= 1 <= unknown.ratio.bounds.high:
        text += f", which unknown costs could turn ({interval_text(unknown.ratio.bounds, ratio)})"
    return text


def _turn_pair(report: Report, best: Best | None) -> Iterator[str]:
    """Yield a clause for each other way to count that would turn the first comparison.

    `best` is given if the conclusion is that this arm is the best of several. A conclusion turns if
    another arm leads, if a difference is no longer shown, or if it is shown only then.
    """
    resampled = report.resampled
    if resampled is None:
        return
    pair, comparisons = report.comparisons[0], len(best.rivals) if best else 1
    value = pair.p_value if pair.adjusted_p_value is None else pair.adjusted_p_value
    sign = _sign(pair.table, comparisons * value)
    arms = report.arm(pair.baseline), report.arm(pair.candidate)
    states = {state for state in WITHOUT_VERDICT if any(arm.states[state] for arm in arms)}
    lost = "stopped cells" if states == {"stopped"} else "lost cells"
    others: tuple[tuple[str, str, PairedTable, InstanceLeads], ...] = (
        (lost, "failures", resampled.complete, resampled.complete_leads),
        ("suspect verdicts", "resolved", resampled.trusted, resampled.trusted_leads),
    )
    for cells, counting, table, leads in others:
        if not table.pairs or table == pair.table:
            continue
        value = PairedTest(table, leads).p_value()
        if _sign(table, comparisons * value) == sign:
            continue
        against = f" against {pair.baseline}" if best else ""
        rest = f"it is {points(table.difference)} points{against} (p = {p_value(value)}"
        rest += f", {plural(table.pairs, 'pair')})" if table.pairs < pair.table.pairs else ")"
        if sign:
            yield f"but only if {cells} count as {counting}: without them {rest}"
        else:
            yield f"but without {cells} {rest}"


def _turn_best(best: Best) -> Iterator[str]:
    """Yield a clause for each other way to count that makes a worse arm the best."""
    worse = [rival.arm for rival in best.rivals if rival.p_value < LEVEL]
    ways: tuple[tuple[str, Callable[[ArmSummary], float]], ...] = (
        ("of the cells with a verdict", _rate_with_verdict),
        ("without suspect verdicts", lambda arm: (arm.resolved - arm.suspect) / arm.planned),
    )
    for where, rate in ways:
        leader = max(worse, key=rate, default=best.arm)
        if rate(leader) > rate(best.arm):
            yield (
                f"but {where} {leader.name} resolves more ({percent(rate(leader))} against "
                f"{percent(rate(best.arm))})"
            )


def _rate_with_verdict(arm: ArmSummary) -> float:
    """Return the resolved share of the cells with a verdict, which is at least `arm.rate`.

    Without a verdict for half of the cells, it would describe very few cells, and is not used.
    """
    graded = arm.planned - sum(arm.states[state] for state in WITHOUT_VERDICT)
    return arm.resolved / graded if 2 * graded >= arm.planned else arm.rate


def _sign(table: PairedTable, value: float) -> int:
    """Return the direction of a difference, or 0 if it may be chance."""
    if value >= LEVEL:
        return 0
    return 1 if table.difference > 0 else -1
