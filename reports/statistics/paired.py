"""Two arms over the same cells. Differences are candidate minus baseline."""

from collections import Counter
from collections.abc import Hashable, Sequence
from math import sqrt

from reports.statistics.proportions import wilson_interval
from reports.statistics.signflip import sign_flip
from reports.types import InstanceLeads, Interval, PairedTable


def paired_table(baseline: Sequence[bool | None], candidate: Sequence[bool | None]) -> PairedTable:
    """Count pairs of cells by the arms that resolved them.

    Both sequences hold the same cells in the same order. None is a cell without a verdict and
    counts as not resolved.

    Raises:
        ValueError: the lengths differ.
    """
    pairs = [(bool(a), bool(b)) for a, b in zip(baseline, candidate, strict=True)]
    return PairedTable(
        both=pairs.count((True, True)),
        only_baseline=pairs.count((True, False)),
        only_candidate=pairs.count((False, True)),
        neither=pairs.count((False, False)),
    )


def instance_leads(
    instances: Sequence[Hashable],
    baseline: Sequence[bool | None],
    candidate: Sequence[bool | None],
) -> InstanceLeads:
    """Return the candidate's lead at each instance, over all pairs of cells of that instance.

    A pair is a position in the three sequences. None is a cell without a verdict and counts as
    not resolved. Instances may have different numbers of pairs. A lead is a count of cells,
    because the difference of the rates is over all cells.

    Raises:
        ValueError: the lengths differ.
    """
    pairs, leads = Counter[Hashable](), Counter[Hashable]()
    for instance, a, b in zip(instances, baseline, candidate, strict=True):
        pairs[instance] += 1
        leads[instance] += bool(b) - bool(a)
    counts = Counter(lead for lead in leads.values() if lead)
    squares = sum(size**2 for size in pairs.values())
    return InstanceLeads(
        instances=len(pairs),
        effective=pairs.total() ** 2 / squares if squares else 0.0,
        counts=dict(counts),
    )


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Return the two-sided p-value for equally likely discordant outcomes.

    It is conditional on the number of discordant pairs: either count is binomial with one
    half. Without discordant pairs it is 1. It is the sign-flip test with one pair per instance.

    McNemar, Q. (1947). Note on the sampling error of the difference between correlated
    proportions or percentages. Psychometrika 12, 153-157. Exact form: Fagerland, Lydersen and
    Laake (2013). BMC Medical Research Methodology 13, 91.

    Raises:
        ValueError: a count is below 0.
    """
    return sign_flip({-1: only_first, 1: only_second}).exact


def mcnemar_mid_p(only_first: int, only_second: int) -> float:
    """Return the two-sided mid-p-value, which is 1 without discordant pairs.

    It counts only half of the observed outcome's probability. It is less conservative than the
    exact test and in practice still keeps the level. Half of the observed outcome's probability
    is subtracted from each tail. With equal counts the tails overlap in that outcome. Raise
    ValueError for a count below 0.

    Fagerland, M. W., Lydersen, S. and Laake, P. (2013). The McNemar test for binary
    matched-pairs data: mid-p and asymptotic are better than exact conditional. BMC Medical
    Research Methodology 13, 91.
    """
    return sign_flip({-1: only_first, 1: only_second}).mid_p


def newcombe_interval(
    table: PairedTable, confidence: float = 0.95, pairs: float | None = None
) -> Interval:
    """Return the interval of the difference of two paired proportions.

    The interval is within [-1, 1] and never empty. It is Newcombe's method 10: Wilson intervals
    of both rates, squared and added with the correlation of the two arms, which is corrected for
    continuity if it is positive. Without pairs it is [-1, 1].

    `pairs` is the number of independent pairs that the table is worth, by default all pairs. If
    cells repeat, pass `InstanceLeads.effective`, which counts each instance as one pair. Then
    the counts are divided by the largest possible design effect, as if the repeats of an
    instance were copies of each other. An estimated design effect makes the interval narrower,
    but it is unreliable with few instances. In simulations of 15 instances with 20 repeats, of
    which a few rare ones differ, a candidate that was worse by the whole margin was called not
    worse in up to 10 % of the runs instead of 2.5 %.

    Newcombe, R. G. (1998). Improved confidence intervals for the difference between binomial
    proportions based on paired data. Statistics in Medicine 17, 2635-2650. Counts divided by
    the design effect: Rao, J. N. K. and Scott, A. J. (1992). A simple method for the analysis
    of clustered binary data. Biometrics 48, 577-585.
    """
    if table.pairs == 0:
        return Interval(-1.0, 1.0)
    worth = table.pairs if pairs is None else pairs
    if not 0 < worth <= table.pairs:
        raise ValueError(f"a table of {table.pairs} pairs cannot be worth {worth}")
    baseline, candidate = (
        _distances(table.both + only, table.pairs, worth, confidence)
        for only in (table.only_baseline, table.only_candidate)
    )
    correlation = _corrected_correlation(table, worth)
    below = _added(candidate.low, baseline.high, correlation)
    above = _added(candidate.high, baseline.low, correlation)
    return Interval(max(-1.0, table.difference - below), min(1.0, table.difference + above))


def is_non_inferior(difference: Interval, margin: float) -> bool:
    """Return True if the candidate is shown to be worse by less than `margin`, a share above 0.

    `difference` is the two-sided interval of candidate minus baseline. At 95 % this is a
    one-sided test at 2.5 %.

    Piaggio, G. et al. (2012). Reporting of noninferiority and equivalence randomized trials.
    JAMA 308, 2594-2604.

    Raises:
        ValueError: the margin is not above 0.
    """
    if margin <= 0:
        raise ValueError(f"a margin of {margin}: it has to be above 0")
    return difference.low > -margin


def _distances(successes: int, trials: int, worth: float, confidence: float) -> Interval:
    """Return the distances of the limits of Wilson's interval from the rate."""
    rate = successes / trials
    interval = wilson_interval(worth * (successes / trials), worth, confidence)
    return Interval(rate - interval.low, interval.high - rate)


def _added(first: float, second: float, correlation: float) -> float:
    # Rounding can make a square slightly negative if the correlation is 1.
    return sqrt(max(0.0, first**2 - 2 * correlation * first * second + second**2))


def _corrected_correlation(table: PairedTable, worth: float) -> float:
    """Return the correlation of the two arms' outcomes, or 0 if one arm's are constant.

    The continuity correction is that of a table of `worth` pairs with the same shares.
    """
    resolved = (table.both + table.only_baseline, table.both + table.only_candidate)
    spread = 1
    for count in resolved:
        spread *= count * (table.pairs - count)
    if spread == 0:
        return 0.0
    excess = table.both * table.neither - table.only_baseline * table.only_candidate
    if excess > 0:
        return max(excess - table.pairs**2 / (2 * worth), 0.0) / sqrt(spread)
    return excess / sqrt(spread)
