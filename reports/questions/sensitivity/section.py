"""How far do the numbers of the leading pair depend on lost cells, verdicts and repositories?"""

from collections.abc import Iterator

from reports.estimates import Estimate, Imputed, InstanceLeads, PairedTable
from reports.format import DASH, count, p_value, plural, points, ratio, usd
from reports.rendering.sections import Section
from reports.statistics.paired import PairedTest
from reports.types import Comparison, Report, Resampled
from reports.wording import (
    BY_REPOSITORY,
    PAIRED,
    REPLACED,
    Line,
    Show,
    estimate_line,
    format_difference,
    interval_text,
    line_tables,
)


def answer(_: object, report: Report) -> Section | None:
    """Return the numbers with other cells, verdicts, repositories and costs, and their methods."""
    if report.resampled is None:
        return None
    pair, resampled = report.comparisons[0], report.resampled
    return Section(
        "leading",
        f"{pair.candidate} against {pair.baseline}: sensitivity and method",
        tables=(
            *line_tables("Sensitivity", _other_cells(report, resampled)),
            *line_tables("Costs by repository", _by_repository(resampled)),
            *line_tables("Costs with unknown ones replaced", _with_unknown_costs(resampled)),
        ),
        footnotes=tuple(_footnotes(pair, resampled)),
        is_detail=True,
    )


def _other_cells(report: Report, resampled: Resampled) -> Iterator[Line]:
    """Yield the difference without lost cells, without suspect verdicts and by repository, each if
    there are such cells or repositories."""
    pair = report.comparisons[0]
    if resampled.complete.pairs < pair.table.pairs:
        over = f"{count(resampled.complete.pairs)} of {plural(pair.table.pairs, 'pair')}"
        yield from _test("complete pairs", resampled.complete, resampled.complete_leads, over)
    arms = report.arm(pair.baseline), report.arm(pair.candidate)
    if suspect := sum(arm.suspect for arm in arms):
        over = f"{count(suspect)} suspect of {count(sum(arm.resolved for arm in arms))} resolved"
        if unaudited := sum(arm.unaudited for arm in arms):
            over += f", {count(unaudited)} not audited"
        leads = resampled.trusted_leads
        yield from _test("without suspect verdicts", resampled.trusted, leads, over)
    if estimate := resampled.difference_by_repository:
        name, over = "difference by repository, points", _repositories(estimate)
        yield estimate_line(name, estimate, points, over, BY_REPOSITORY)


def _test(what: str, table: PairedTable, leads: InstanceLeads, over: str) -> Iterator[Line]:
    """Yield the difference of a pair and its test over other cells or verdicts."""
    name, test = f"difference, {what}, points", PairedTest(table, leads)
    if table.pairs:
        yield name, points(table.difference), interval_text(test.interval(), points), over, PAIRED
    else:
        yield name, DASH, DASH, over, DASH
    yield f"p, {what}", p_value(test.p_value()), DASH, over, PAIRED


def _by_repository(resampled: Resampled) -> Iterator[Line]:
    """Yield cost ratio, cost difference and costs per resolved cell, drawn by repository."""
    costs, prefix = resampled.costs_by_repository, "per resolved cell by repository"
    estimates: tuple[tuple[str, Estimate | None, Show], ...] = (
        ("cost, ratio by repository", costs.ratio, ratio),
        ("cost, difference per cell by repository", costs.difference, format_difference),
        (f"{prefix}, {resampled.baseline}", costs.baseline_per_resolved, usd),
        (f"{prefix}, {resampled.candidate}", costs.candidate_per_resolved, usd),
        (f"{prefix}, ratio", costs.ratio_per_resolved, ratio),
    )
    for name, estimate, show in estimates:
        if estimate:
            yield estimate_line(name, estimate, show, _repositories(estimate), BY_REPOSITORY)


def _repositories(estimate: Estimate) -> str:
    return plural(estimate.clusters, "repository", "repositories")


def _with_unknown_costs(resampled: Resampled) -> Iterator[Line]:
    """Yield the costs with unknown ones replaced, if there are any."""
    unknown = resampled.unknown_costs
    if unknown is None:
        return
    over = f"{plural(unknown.pairs, 'pair')} that ran, {plural(unknown.cells, 'unknown cost')}"
    amounts: tuple[tuple[str, Imputed | None, Show], ...] = (
        ("cost, ratio", unknown.ratio, ratio),
        ("cost, difference per cell", unknown.difference, format_difference),
        (f"per resolved cell, {resampled.baseline}", unknown.baseline_per_resolved, usd),
        (f"per resolved cell, {resampled.candidate}", unknown.candidate_per_resolved, usd),
        ("per resolved cell, ratio", unknown.ratio_per_resolved, ratio),
    )
    for name, imputed, show in amounts:
        if imputed:
            mean, most = show(imputed.at_mean), show(imputed.at_maximum)
            bounds = interval_text(imputed.bounds, show)
            yield f"{name}, unknown ones at the mean", mean, DASH, over, "imputed"
            yield f"{name}, unknown ones at the maximum", most, DASH, over, "imputed"
            yield f"{name}, unknown ones from least to maximum", bounds, DASH, over, "bounds"


def _footnotes(pair: Comparison, resampled: Resampled) -> Iterator[str]:
    yield (
        f"Differences are {pair.candidate} minus {pair.baseline}, ratios {pair.candidate} over "
        f"{pair.baseline}. Intervals are two-sided, at 95 %."
    )
    yield (
        f"Bootstrap: expanded percentile interval of {count(resampled.resamples)} resamples, seed "
        f"{resampled.seed}; drawn are whole instances with all their cells in both arms, or whole "
        "repositories, which is an indication only where these are few."
    )
    if resampled.complete.pairs < pair.table.pairs:
        yield (
            "Complete pairs have no lost cell (infrastructure, stopped, not "
            "graded, never run); everywhere else a lost cell counts as not resolved."
        )
    if resampled.trusted != pair.table:
        yield (
            "Without suspect verdicts: a resolved cell that the audit doubts counts as not "
            "resolved."
        )
    if resampled.unknown_costs:
        yield REPLACED
    yield (
        "Paired test, and intervals by instance: how far could the number be off if other "
        "instances of the same repositories had been drawn?"
    )
    yield (
        "Intervals by repository: how far could it be off if other repositories had been drawn? "
        "They are the ones to read before moving to a repository that is not in the data, and need "
        "about ten repositories of similar size."
    )
    yield (
        "Imputed costs and bounds: how far could a number of cost be off because some prices are "
        "unknown, whatever was drawn?"
    )
