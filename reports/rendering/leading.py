"""The numbers of the leading pair of arms, each with its interval and method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reports.analysis.plans import size
from reports.format import (
    DASH,
    count,
    mean,
    p_value,
    plural,
    points,
    ratio,
    usd,
)
from reports.rendering.lines import (
    BOOTSTRAP_T,
    BY_INSTANCE,
    BY_REPOSITORY,
    UNLIMITED,
    Group,
    Line,
    Show,
    estimate_line,
    interval_text,
    signed,
)
from reports.rendering.repositories import costs_by_repository, questions, repositories
from reports.rendering.unknown_costs import REPLACED, with_unknown_costs
from reports.statistics import PairedTest
from reports.types import (
    Amounts,
    Comparison,
    Estimate,
    InstanceLeads,
    PairedTable,
    Report,
    Resampled,
)

PAIRED = "paired test"
"""Method of the difference, its interval and its p-value."""


@dataclass(frozen=True)
class Leading:
    """The report's numbers on the leading pair."""

    summary: str
    cost_ratio: Line
    """The candidate's cost over the baseline's, also part of a group."""
    groups: tuple[Group, ...]
    """Groups on resolution, amounts, cost per resolved cell and sensitivity. A group is empty if
    none of its numbers is known for any pair."""
    footnotes: tuple[str, ...]


def describe(report: Report) -> Leading | None:
    """Return the leading pair's numbers, or None for a report with one arm."""
    if report.resampled is None:
        return None
    pair, resampled, repeats = report.comparisons[0], report.resampled, report.source.repeats
    resolution = tuple(_resolution(pair))
    declared = tuple(_declared(report))
    cost_ratio = _cost_ratio(pair, resampled)
    return Leading(
        summary=_summary(pair, resampled, resolution[0], declared, cost_ratio),
        cost_ratio=cost_ratio,
        groups=(
            Group("Resolution", resolution + declared),
            Group("Cost, tokens and time", tuple(_amounts(pair, resampled))),
            Group("Cost per resolved cell", tuple(_costs_per_resolved(pair, resampled))),
            Group("Sensitivity", tuple(_sensitivities(report, resampled))),
            Group("Costs by repository", tuple(costs_by_repository(resampled))),
            *with_unknown_costs(resampled),
        ),
        footnotes=(
            *_footnotes(pair, resampled, repeats),
            *_footnotes_of_declared(report),
            *questions(),
        ),
    )


def _summary(
    pair: Comparison,
    resampled: Resampled,
    difference: Line,
    declared: tuple[Line, ...],
    cost: Line,
) -> str:
    """Return the difference, the tests and the ratio of cost in one line."""
    settings = f"{count(resampled.resamples)} resamples, seed {resampled.seed}"
    resolution = (
        f"Difference of resolution {difference.value} points (95 % interval "
        f"{difference.interval}), p = {p_value(pair.p_value)}, {difference.method}"
    ) + "".join(f"; {line.name}: {line.value}" for line in declared)
    if resampled.cost.ratio is None:
        return f"{resolution}."
    is_all = resampled.cost.pairs == pair.table.pairs
    where = "" if is_all else f" on {cost.over} with both costs known"
    return (
        f"{resolution}; ratio of cost{where} {cost.value} (95 % interval {cost.interval}, "
        f"{cost.method}, {settings})."
    )


def _resolution(pair: Comparison) -> Iterator[Line]:
    over = plural(pair.table.pairs, "pair")
    limits = interval_text(pair.interval, points)
    yield Line("difference, points", points(pair.table.difference), limits, over, PAIRED)
    differing = _differing(pair, pair.table, pair.leads)
    yield Line("p", p_value(pair.p_value), DASH, differing, PAIRED)


def _differing(pair: Comparison, table: PairedTable, leads: InstanceLeads) -> str:
    """Format the number of units that the test is over."""
    if pair.has_repeats:
        return f"{count(leads.differing)} of {plural(leads.instances, 'instance')} differ"
    return plural(table.discordant, "discordant pair")


def _declared(report: Report) -> Iterator[Line]:
    """Yield the declared tests: the one within its family, and the one against the margin."""
    if _is_in_a_family(report):
        over = plural(len(report.source.plan.comparisons), "declared comparison")
        adjusted = adjusted_p(report.comparisons[0])
        yield Line("p, adjusted", adjusted, DASH, over, "Holm")
    judged = report.non_inferiority
    if judged:
        yield Line(
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


def adjusted_p(pair: Comparison) -> str:
    """Format the p-value within the declared family, or a dash for an undeclared comparison."""
    return DASH if pair.adjusted_p_value is None else p_value(pair.adjusted_p_value)


def _cost_ratio(pair: Comparison, resampled: Resampled) -> Line:
    over = _of_pairs(resampled.cost.pairs, pair)
    return estimate_line("cost, ratio", resampled.cost.ratio, ratio, over)


def _amounts(pair: Comparison, resampled: Resampled) -> Iterator[Line]:
    """Yield the lines of the amounts that are known for any pair."""
    shown: tuple[tuple[str, Amounts, Show], ...] = (
        ("cost", resampled.cost, lambda value: signed(value, usd)),
        ("tokens", resampled.tokens, lambda value: signed(value, lambda size: f"{size:,.0f}")),
        ("time", resampled.duration, lambda value: signed(value, lambda size: mean(size, " s"))),
    )
    for name, amounts, show in shown:
        if not amounts.pairs:
            continue
        over = _of_pairs(amounts.pairs, pair)
        yield estimate_line(f"{name}, ratio", amounts.ratio, ratio, over)
        yield estimate_line(
            f"{name}, difference per cell", amounts.difference, show, over, BOOTSTRAP_T
        )


def _of_pairs(known: int, pair: Comparison) -> str:
    """Format the number of pairs with both amounts known, as a part of all if only some are."""
    if known in (0, pair.table.pairs):
        return plural(known, "pair")
    return f"{count(known)} of {plural(pair.table.pairs, 'pair')}"


def _costs_per_resolved(pair: Comparison, resampled: Resampled) -> Iterator[Line]:
    shown: tuple[tuple[str, Estimate | None, Show], ...] = (
        (resampled.baseline, resampled.baseline_cost_per_resolved, usd),
        (resampled.candidate, resampled.candidate_cost_per_resolved, usd),
        ("ratio", resampled.ratio_of_costs_per_resolved, ratio),
    )
    pairs = _of_pairs(resampled.cost.pairs, pair)
    for name, estimate, show in shown if resampled.cost.pairs else ():
        method = BY_INSTANCE if name == "ratio" else BOOTSTRAP_T
        degenerate = (
            f"; {count(estimate.degenerate)} of {count(resampled.resamples)} resamples degenerate"
            if estimate and estimate.degenerate
            else ""
        )
        yield estimate_line(name, estimate, show, pairs + degenerate, method)


def _sensitivities(report: Report, resampled: Resampled) -> Iterator[Line]:
    """Yield the difference without lost cells, without suspect verdicts and by repository, each if
    there are such cells or repositories."""
    pair = report.comparisons[0]
    if resampled.complete.pairs < pair.table.pairs:
        over = f"{count(resampled.complete.pairs)} of {plural(pair.table.pairs, 'pair')}"
        leads = resampled.complete_leads
        yield from _other_table("complete pairs", resampled.complete, leads, over)
    arms = report.arm(pair.baseline), report.arm(pair.candidate)
    if suspect := sum(arm.suspect for arm in arms):
        over = f"{count(suspect)} suspect of {count(sum(arm.resolved for arm in arms))} resolved"
        if unaudited := sum(arm.unaudited for arm in arms):
            over += f", {count(unaudited)} not audited"
        leads = resampled.trusted_leads
        yield from _other_table("without suspect verdicts", resampled.trusted, leads, over)
    by_repository = resampled.difference_by_repository
    if by_repository:
        over = repositories(by_repository)
        name = "difference by repository, points"
        yield estimate_line(name, by_repository, points, over, BY_REPOSITORY)


def _other_table(what: str, table: PairedTable, leads: InstanceLeads, over: str) -> Iterator[Line]:
    """Yield the difference of a pair and its test over other cells or verdicts."""
    name = f"difference, {what}, points"
    test = PairedTest(table, leads)
    if table.pairs:
        limits = interval_text(test.interval(), points)
        yield Line(name, points(table.difference), limits, over, PAIRED)
    else:
        yield Line(name, DASH, DASH, over, DASH)
    yield Line(f"p, {what}", p_value(test.p_value()), DASH, over, PAIRED)


def _footnotes(pair: Comparison, resampled: Resampled, repeats: int) -> Iterator[str]:
    yield (
        f"Differences are {pair.candidate} minus {pair.baseline}, ratios {pair.candidate} over "
        f"{pair.baseline}. Intervals are two-sided, at 95 %."
    )
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
    yield (
        f"Bootstrap: expanded percentile interval of {count(resampled.resamples)} resamples, seed "
        f"{resampled.seed}; drawn are whole instances with all their cells in both arms, or whole "
        "repositories, which is an indication only where these are few."
    )
    if any(each.pairs for each in (resampled.cost, resampled.tokens, resampled.duration)):
        yield (
            "Cost, tokens (input and output) and time are over the pairs in which both amounts are "
            "fully known; cost per resolved cell is all their cost, of unresolved ones too. A "
            "resample in which an arm resolves nothing is degenerate and counts as infinitely "
            f"expensive. A limit is {UNLIMITED} where too many resamples are degenerate, or where "
            "there is only one instance or repository to draw."
        )
    if resampled.complete.pairs < pair.table.pairs:
        yield (
            "Complete pairs are those of which no cell was lost (infrastructure, stopped, not "
            "graded, never run); everywhere else a lost cell counts as not resolved."
        )
    if resampled.trusted != pair.table:
        yield (
            "Without suspect verdicts: a resolved cell that the audit doubts counts as not "
            "resolved."
        )
    if resampled.unknown_costs:
        yield REPLACED


def _footnotes_of_declared(report: Report) -> Iterator[str]:
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
