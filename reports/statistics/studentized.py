"""Bootstrap-t intervals of skewed amounts, for few instances.

The resampled statistic is divided by its own standard error, which it has in common with the
observed one: where a sample lacks the rare expensive cells, its mean and its standard error are
both too small. Percentiles of the mean itself ignore that and cover too rarely. All quantiles are
expanded for the spread being estimated from few clusters, as in `Bootstrap`.

Efron, B. and Tibshirani, R. J. (1993). An Introduction to the Bootstrap. Chapman & Hall,
section 12.5.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING

from reports.estimates import TAIL, Estimate, Interval
from reports.statistics.bootstrap import Bootstrap, cluster_totals, expand_tail
from reports.statistics.fieller import fieller_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from reports.statistics.bootstrap import Clusters

    Numbers = NDArray[np.float64]


def difference_of_amounts(
    baseline: ArrayLike, candidate: ArrayLike, clusters: Clusters, bootstrap: Bootstrap
) -> Estimate | None:
    """Return candidate's mean per row minus baseline's, over the same rows. None without rows.

    The interval is symmetric: its half-width is a quantile of the absolute studentised difference.
    In simulations of eight scenarios with 23 instances it covers at least 92.5 %, where equal tails
    and BCa go down to 81 % for costs with a log-normal spread of 1.5.

    Hall, P. (1988). On symmetric bootstrap confidence intervals. Journal of the Royal Statistical
    Society B 50, 35-45.
    """
    import numpy as np

    if not len(clusters):
        return None
    gain = np.asarray(candidate, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    totals = cluster_totals([gain, np.ones(len(gain))], clusters)
    value = float(totals[:, 0].sum() / totals[:, 1].sum())
    count = len(totals)
    if count == 1:
        return Estimate(value, Interval(-inf, inf), count, 0)
    studentized, error = _studentize(totals, value, bootstrap)
    tail = 2 * expand_tail(TAIL, count)
    half = 0.0
    if error:
        half = error * float(np.quantile(np.abs(studentized), 1 - tail, method="higher"))
    half /= float(totals[:, 1].mean())
    return Estimate(value, Interval(value - half, value + half), count, 0)


def cost_per_resolved(
    cost: ArrayLike, resolved: ArrayLike, clusters: Clusters, bootstrap: Bootstrap
) -> Estimate | None:
    """Return the cost of all cells of an arm per resolved cell, or None if none is resolved.

    The interval inverts a test as Fieller's does, with critical values from a bootstrap. It needs
    no division by a resampled number of resolved cells, so that a resample without one is as good
    as any. The upper limit is infinite if so little is resolved that the data allow for nothing.
    The quantiles are expanded for the number of normal observations that would estimate the
    standard error as well as the data do, which is small if few clusters make up most cost. They
    are expanded twice, once for the standard error of the data and once for the resamples.

    Hwang, J. T. G. (1995). Fieller's problems and resampling techniques. Statistica Sinica 5,
    161-171. Briggs, A. H., Mooney, C. Z. and Wonderling, D. E. (1999). Constructing confidence
    intervals for cost-effectiveness ratios. Statistics in Medicine 18, 3245-3262.
    """
    import numpy as np

    totals = cluster_totals([cost, resolved], clusters)
    count = len(totals)
    if not totals[:, 1].any():
        return None
    value = float(totals[:, 0].sum() / totals[:, 1].sum())
    drawn = bootstrap.sums(totals)
    degenerate = int(np.count_nonzero(drawn[:, 1] == 0))
    if count == 1:
        return Estimate(value, Interval(-inf, inf), count, degenerate)
    studentized, error = _studentize(totals, value, bootstrap)
    if not error:
        return Estimate(value, Interval(value, value), count, degenerate)
    worth = _effective(totals, value)
    tail = expand_tail(expand_tail(TAIL, worth), worth)
    low = float(np.quantile(studentized, tail, method="lower"))
    high = float(np.quantile(studentized, 1 - tail, method="higher"))
    (of_cost, joint), (_, other) = np.cov(totals.T) / count
    mean_cost, mean_resolved = (float(mean) for mean in totals.mean(axis=0))
    interval = fieller_interval(
        (mean_cost, mean_resolved), (float(of_cost), float(other), float(joint)), (low, high)
    )
    least = interval.low if interval.low > 0 else _percentile(drawn, count, bootstrap)
    return Estimate(value, Interval(least, interval.high), count, degenerate)


def _effective(totals: Numbers, ratio: float) -> float:
    """Return the number of normal observations whose variance is as uncertain as the data's.

    It follows from the kurtosis of the residuals, and is never more than the number of clusters.

    O'Neill, B. (2014). Some useful moment results in sampling problems. The American Statistician
    68, 282-296.
    """
    import numpy as np

    residuals = totals[:, 0] - ratio * totals[:, 1]  # their mean is 0
    squares = (residuals / np.abs(residuals).max()) ** 2
    excess = max(0.0, float((squares**2).mean() / squares.mean() ** 2) - 3)
    return 1 + (len(residuals) - 1) / (1 + excess / 2)


def _percentile(drawn: Numbers, clusters: int, bootstrap: Bootstrap) -> float:
    """Return the lower limit by percentiles, for data in which the test rejects nothing."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        return max(0.0, bootstrap.interval(drawn[:, 0] / drawn[:, 1], clusters).low)


def _studentize(totals: Numbers, ratio: float, bootstrap: Bootstrap) -> tuple[Numbers, float]:
    """Return the studentised mean of `first - ratio * second` in each resample.

    `totals` are clusters × two columns. The second value is the standard error of the mean in the
    sample itself, 0 if all clusters agree. A resample in which all of them agree is beyond all
    others.
    """
    import numpy as np

    residuals = totals[:, 0] - ratio * totals[:, 1]
    count = len(residuals)
    scale = float(np.abs(residuals).max())
    if scale <= 1e-12 * float(np.abs(totals).max()):
        return np.zeros(1), 0.0
    residuals /= scale
    drawn = bootstrap.sums(np.column_stack([residuals, residuals**2])) / count
    means = drawn[:, 0]
    spread = np.sqrt(np.maximum(drawn[:, 1] - means**2, 0.0) / (count - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        studentized = np.where(spread > 1e-9, means / spread, np.sign(means) * np.inf)
    error = scale * float(residuals.std(ddof=1)) / sqrt(count)
    return np.nan_to_num(studentized, nan=0.0, posinf=np.inf, neginf=-np.inf), error
