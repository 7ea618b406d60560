"""Confidence limits of a ratio of two means."""

from math import inf, isinf, sqrt

from reports.estimates import Interval


def fieller_interval(
    means: tuple[float, float],
    covariance: tuple[float, float, float],
    quantiles: tuple[float, float],
) -> Interval:
    """Return the interval of the first mean over the second, which contains their ratio.

    `covariance` has the variance of the first mean, the variance of the second, and their
    covariance. `quantiles` are the lower and the upper critical value of the studentised
    `first - ratio * second`, from Student's t or from a bootstrap. The interval holds all
    ratios around the estimate that this test does not reject. A limit is infinite if the test
    rejects no ratio on that side, because the second mean is not clear of 0. Raise
    ZeroDivisionError if the second mean is 0.

    Fieller, E. C. (1954). Some problems in interval estimation. Journal of the Royal Statistical
    Society B 16, 175-185. For incremental cost-effectiveness ratios: Willan, A. R. and O'Brien,
    B. J. (1996). Confidence intervals for cost-effectiveness ratios: an application of Fieller's
    theorem. Health Economics 5, 297-305.
    """
    first, second = means
    ratio = first / second
    if second < 0:
        first, second = -first, -second
    low, high = min(quantiles[0], 0.0), max(quantiles[1], 0.0)
    below = [root for root in _roots(first, second, covariance, high) if root <= ratio]
    above = [root for root in _roots(first, second, covariance, low) if root >= ratio]
    return Interval(max(below, default=-inf), min(above, default=inf))


def _roots(
    first: float, second: float, covariance: tuple[float, float, float], quantile: float
) -> tuple[float, ...]:
    """Return the ratios at which the studentised difference is plus or minus `quantile`."""
    if quantile == 0:
        return (first / second,)
    if isinf(quantile):  # a test that rejects nothing
        return ()
    of_first, other, joint = covariance
    square = quantile**2
    a = second**2 - square * other
    b = first * second - square * joint
    c = first**2 - square * of_first
    inside = b**2 - a * c
    if a == 0 or inside < 0:
        return ()
    root = sqrt(inside)
    return ((b - root) / a, (b + root) / a)
