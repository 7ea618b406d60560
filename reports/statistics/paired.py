"""Two arms over the same cells. Differences are candidate minus baseline."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from reports.estimates import TAIL, InstanceLeads, Interval, PairedTable
from reports.statistics.sums import SumsModel, Tails

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from reports.statistics.bootstrap import Clusters

FEW = 3
"""Number of instances whose leads say as much about the correlation of repeats as their share
without a lead does."""

_GRID = (0.01, 0.03, 0.07, 0.15, 0.3, 0.6)
"""Differences at which a tail is looked at, to see whether it rises again."""

_PRECISION = 1e-6
"""Precision of an interval's limits, as a share or in standard errors."""

_ALMOST_ONE = 1 - 1e-15


def count_pairs(baseline: ArrayLike, candidate: ArrayLike) -> PairedTable:
    """Count pairs of cells by the arms that resolved them.

    Both sequences hold the same cells in the same order. None is a cell without a verdict and
    counts as not resolved.

    Raises:
        ValueError: the lengths differ.
    """
    import numpy as np

    first, second = (np.asarray(column, dtype=bool) for column in (baseline, candidate))
    if len(first) != len(second):
        raise ValueError(f"{len(first)} cells of one arm and {len(second)} of the other")
    return PairedTable(
        both=int((first & second).sum()),
        only_baseline=int((first & ~second).sum()),
        only_candidate=int((~first & second).sum()),
        neither=int((~first & ~second).sum()),
    )


def instance_leads(
    instances: Clusters,
    baseline: ArrayLike,
    candidate: ArrayLike,
) -> InstanceLeads:
    """Count instances by their number of pairs of cells and by the candidate's lead.

    A pair is a position in the three sequences. None is a cell without a verdict and counts as
    not resolved. Instances may have different numbers of pairs. A lead is a count of cells,
    because the difference of the rates is over all cells.

    Raises:
        ValueError: the lengths differ.
    """
    import numpy as np

    first, second = (np.asarray(column, dtype=bool) for column in (baseline, candidate))
    _, place, sizes = np.unique(np.asarray(instances), return_inverse=True, return_counts=True)
    leads = np.zeros(len(sizes), dtype=np.int64)
    np.add.at(leads, place, second.astype(np.int64) - first)
    return InstanceLeads(Counter(zip(sizes.tolist(), leads.tolist(), strict=True)))


@dataclass(frozen=True)
class PairedTest:
    """A test of every difference of the rates of two arms over the same cells.

    For a difference in question, the model of `SumsModel` is fitted to the data under the
    restriction that it has this difference. The p-value is twice the chance, under that model, that
    the candidate leads by as many cells as observed or by more, or as many or fewer, whichever is
    smaller. It is computed without simulation. The interval holds the differences with a p-value of
    at least 5 %, so that test and interval never contradict each other.

    Without repeats, the model has one free parameter, the share of pairs that only one arm
    resolves, fitted by maximum likelihood (Tango 1998). Such an estimated p-value counts the whole
    chance of the observed lead, so that it does not exceed its level: over all shares and
    differences, with 23 to 500 instances, a one-sided test at 2.5 % errs in at most 2.5 %.

    With repeats, the correlation of the repeats of an instance is fitted as well, see `_alike`.

    Tango, T. (1998). Equivalence test and confidence interval for the difference in proportions
    for the paired-sample design. Statistics in Medicine 17, 891-908. Estimated p-values: Storer,
    B. E. and Kim, C. (1990). Exact properties of some exact test statistics for comparing two
    binomial proportions. Journal of the American Statistical Association 85, 146-155. Their
    inversion for pairs: Tang, M.-L., Tang, N.-S. and Chan, I. S. F. (2005). Confidence interval
    construction for proportion difference in small-sample paired studies. Statistics in Medicine
    24, 3565-3579.
    """

    table: PairedTable
    leads: InstanceLeads
    """Leads of the instances of the table."""

    def __post_init__(self) -> None:
        """Reject leads of another table."""
        sums = self.leads.pairs, self.leads.total
        if sums != (self.table.pairs, self.table.only_candidate - self.table.only_baseline):
            raise ValueError(f"{self.leads}: not the leads of {self.table}")

    def p_value(self, difference: float = 0.0) -> float:
        """Return the two-sided p-value of a difference, a share. Without pairs it is 1."""
        if not self.table.pairs:
            return 1.0
        tails = self._compute_tails(difference)
        return min(1.0, 2 * self._tail(difference, upper=tails.at_most < tails.at_least))

    def variance(self, difference: float = 0.0) -> float:
        """Return the variance of the sum of all leads at a difference."""
        model, pairs = self._fit(difference), self.table.pairs
        return model.variance * (pairs + model.alike * (self.leads.squared_sizes - pairs))

    def interval(self) -> Interval:
        """Return the differences that the test does not reject. Without pairs it is [-1, 1]."""
        if not self.table.pairs:
            return Interval(-1.0, 1.0)
        return Interval(self._limit(-1.0, upper=False), self._limit(1.0, upper=True))

    def _limit(self, end: float, *, upper: bool) -> float:
        """Return the last difference towards `end`, which is -1 or 1, that is not rejected.

        It is found by false position, in the version of Illinois, on the normal quantile of the
        tail, which is nearly linear in the difference.
        """
        normal = NormalDist()

        def excess(difference: float) -> float:
            tail = min(max(self._tail(difference, upper=upper), 1e-300), _ALMOST_ONE)
            return normal.inv_cdf(tail) - normal.inv_cdf(TAIL)

        inside = outside = self.table.difference
        high, low, last = -normal.inv_cdf(TAIL), 0.0, 0
        step = end * (1 + high * sqrt(self.variance(inside))) / self.table.pairs
        while low >= 0:
            if outside == end:
                return end
            if last:
                inside, high = outside, low
            outside = max(-1.0, min(1.0, outside + 1.1 * step))
            low, step, last = excess(outside), 2 * step, 1
        last = 0
        while abs(outside - inside) > _PRECISION:
            middle = inside + (outside - inside) * high / (high - low)
            value = excess(middle)
            if abs(value) < _PRECISION:
                return middle
            if value > 0:
                inside, high, low, last = middle, value, low / 2 if last > 0 else low, 1
            else:
                outside, low, high, last = middle, value, high / 2 if last < 0 else high, -1
        return inside

    def _tail(self, difference: float, *, upper: bool) -> float:
        """Return the chance of a lead of at most the observed one (upper), or of at least it.

        It falls towards the end of the range. With repeats, the correlation depends on the
        difference in question, so that the data may be more likely under a larger difference than
        under a smaller one. Then the smaller one is not rejected either: an interval has no holes.
        """
        others = [difference]
        if self.leads.has_repeats:
            sign = 1 if upper else -1
            others += [sign * share for share in _GRID if sign * difference < share]
        return max(
            tails.at_most if upper else tails.at_least for tails in map(self._compute_tails, others)
        )

    def _compute_tails(self, difference: float) -> Tails:
        """Return the tails at a difference, once computed."""
        if difference not in self._found:
            self._found[difference] = self._fit(difference).tails(self.leads.total)
        return self._found[difference]

    @cached_property
    def _found(self) -> dict[float, Tails]:
        return {}

    def _fit(self, difference: float) -> SumsModel:
        """Return the model that has this difference and fits the data best otherwise."""
        pairs, first, second = self.table.pairs, self.table.only_baseline, self.table.only_candidate
        concordant = pairs - first - second
        # The positive root of the derivative of the likelihood, by the chance of `first`.
        half = first * (1 - 3 * difference) + second * (1 - difference)
        half -= 2 * concordant * difference
        rest = 8 * pairs * first * difference * (1 - difference)
        share = (half + sqrt(max(0.0, half**2 + rest))) / (4 * pairs)
        share = min(max(share, 0.0, -difference), (1 - difference) / 2)
        model = SumsModel(share, max(0.0, share + difference), 0.0, self.leads.sizes)
        if not self.leads.has_repeats:
            return model
        return SumsModel(
            model.only_baseline, model.only_candidate, self._alike(model, difference), model.sizes
        )

    def _alike(self, model: SumsModel, difference: float) -> float:
        """Return the correlation of the repeats of an instance.

        It is the largest of two moment estimates: from the spread of the leads about the
        difference in question, and that of their spread about their own mean. The latter is worth
        little if few instances differ: leads of a few cells at two instances do not rule out an
        instance at which one arm resolves every repeat and the other none. So it is averaged with
        a third estimate, from the share of instances without a lead, which copied repeats make
        larger, by weights that depend on the number of instances that carry the spread. `FEW` was
        chosen by simulation (`python -m tests.bench paired`): less is too sure of small
        differences where rare instances differ, more is too cautious everywhere else.
        """
        observed = self._own_correlation
        without = model.share_without_lead()
        expected = model.neither_leads - without
        silent = 1.0
        if abs(expected) > 1e-9:
            silent = _share((1 - self.leads.differing / self.leads.instances - without) / expected)
        weight = (self.leads.carriers / FEW) ** 2
        averaged = (weight * observed + max(observed, silent)) / (weight + 1)
        return max(averaged, self._correlation(difference, model.variance))

    @cached_property
    def _own_correlation(self) -> float:
        """Correlation by the spread about the observed difference; 1 if nothing is known."""
        difference, instances = self.table.difference, self.leads.instances
        variance = self.table.discordant / self.table.pairs - difference**2
        if instances == 1 or variance <= 0:
            return 1.0
        return self._correlation(difference, variance * (instances - 1) / instances)

    def _correlation(self, difference: float, variance: float) -> float:
        """Return the correlation at which leads of this variance have the observed spread."""
        if variance <= 0:
            return 1.0
        pairs, squares = self.table.pairs, self.leads.squared_sizes
        return _share((self.leads.spread(difference) / variance - pairs) / (squares - pairs))


def is_non_inferior(difference: Interval, margin: float) -> bool:
    """Return True if the candidate is shown to be worse by less than `margin`, a share above 0.

    `difference` is the two-sided interval of candidate minus baseline. At 95 % this is the
    one-sided test at 2.5 % of a loss of the margin.

    Piaggio, G. et al. (2012). Reporting of noninferiority and equivalence randomized trials.
    JAMA 308, 2594-2604.

    Raises:
        ValueError: the margin is not above 0.
    """
    if margin <= 0:
        raise ValueError(f"a margin of {margin}: it has to be above 0")
    return difference.low > -margin


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
