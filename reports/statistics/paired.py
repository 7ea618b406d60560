"""Two arms over the same cells. Differences are candidate minus baseline."""

from collections.abc import Sequence
from math import comb, sqrt

from reports.statistics.proportions import wilson_interval
from reports.types import Interval, PairedTable


def paired_table(baseline: Sequence[bool | None], candidate: Sequence[bool | None]) -> PairedTable:
    """Pairs of cells by which arm resolved them; None, a cell without a verdict, did not.

    Both sequences hold the same cells in the same order; raises ValueError where their
    lengths differ.
    """
    pairs = [(bool(a), bool(b)) for a, b in zip(baseline, candidate, strict=True)]
    return PairedTable(
        both=pairs.count((True, True)),
        only_baseline=pairs.count((True, False)),
        only_candidate=pairs.count((False, True)),
        neither=pairs.count((False, False)),
    )


def complete_pairs(
    baseline: Sequence[bool | None], candidate: Sequence[bool | None]
) -> PairedTable:
    """The paired table without the pairs of which a cell has no verdict (None).

    A sensitivity analysis beside `paired_table`: the two differ by what was lost. Raises
    ValueError where the lengths differ.
    """
    pairs = zip(baseline, candidate, strict=True)
    kept = [(a, b) for a, b in pairs if a is not None and b is not None]
    return paired_table([a for a, _ in kept], [b for _, b in kept])


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided p-value of the hypothesis that both discordant outcomes are equally likely.

    Conditional on the number of discordant pairs, which is binomial with one half; 1 when
    there is none.

    McNemar, Q. (1947). Note on the sampling error of the difference between correlated
    proportions or percentages. Psychometrika 12, 153-157. Exact form: Fagerland, Lydersen and
    Laake (2013). BMC Medical Research Methodology 13, 91.
    """
    from scipy.special import bdtr  # scipy.stats would take a second to import

    discordant = only_first + only_second
    if discordant == 0:
        return 1.0
    return min(1.0, 2 * float(bdtr(min(only_first, only_second), discordant, 0.5)))


def mcnemar_mid_p(only_first: int, only_second: int) -> float:
    """Two-sided p-value that counts only half of the outcome at hand; 1 without discordant pairs.

    Less conservative than the exact test, and in practice still at its level. Half of what
    was observed is taken off each tail; with equal counts the tails overlap in it.

    Fagerland, M. W., Lydersen, S. and Laake, P. (2013). The McNemar test for binary
    matched-pairs data: mid-p and asymptotic are better than exact conditional. BMC Medical
    Research Methodology 13, 91.
    """
    discordant = only_first + only_second
    if discordant == 0:
        return 1.0
    observed: float = comb(discordant, only_first) / 2**discordant
    if only_first == only_second:
        return 1 - observed / 2
    return mcnemar_exact(only_first, only_second) - observed


def newcombe_interval(table: PairedTable, confidence: float = 0.95) -> Interval:
    """Interval of the difference of two paired proportions; within [-1, 1], never empty.

    Newcombe's method 10: Wilson intervals of both rates, squared and added with the
    correlation of the two arms, which is corrected for continuity where it is positive. For
    independent pairs, so one per instance. Without pairs it is [-1, 1].

    Newcombe, R. G. (1998). Improved confidence intervals for the difference between binomial
    proportions based on paired data. Statistics in Medicine 17, 2635-2650.
    """
    if table.pairs == 0:
        return Interval(-1.0, 1.0)
    baseline = _distances(table.both + table.only_baseline, table.pairs, confidence)
    candidate = _distances(table.both + table.only_candidate, table.pairs, confidence)
    correlation = _corrected_correlation(table)
    below = _added(candidate.low, baseline.high, correlation)
    above = _added(candidate.high, baseline.low, correlation)
    return Interval(table.difference - below, table.difference + above)


def is_non_inferior(difference: Interval, margin: float) -> bool:
    """Whether the candidate is shown to be worse by less than `margin`, a share above 0.

    `difference` is the two-sided interval of candidate minus baseline; at 95 % this is a
    one-sided test at 2.5 %. Raises ValueError for a margin that is not above 0.

    Piaggio, G. et al. (2012). Reporting of noninferiority and equivalence randomized trials.
    JAMA 308, 2594-2604.
    """
    if margin <= 0:
        raise ValueError(f"a margin of {margin}: it has to be above 0")
    return difference.low > -margin


def _distances(successes: int, trials: int, confidence: float) -> Interval:
    """How far the limits of Wilson's interval are from the rate."""
    rate = successes / trials
    interval = wilson_interval(successes, trials, confidence)
    return Interval(rate - interval.low, interval.high - rate)


def _added(first: float, second: float, correlation: float) -> float:
    # Rounding can leave a square just below 0 where the correlation is 1.
    return sqrt(max(0.0, first**2 - 2 * correlation * first * second + second**2))


def _corrected_correlation(table: PairedTable) -> float:
    """Correlation of the two arms' outcomes, 0 where one of them is constant."""
    resolved = (table.both + table.only_baseline, table.both + table.only_candidate)
    spread = 1
    for count in resolved:
        spread *= count * (table.pairs - count)
    if spread == 0:
        return 0.0
    excess = table.both * table.neither - table.only_baseline * table.only_candidate
    if excess > 0:
        return max(excess - table.pairs / 2, 0.0) / sqrt(spread)
    return excess / sqrt(spread)
