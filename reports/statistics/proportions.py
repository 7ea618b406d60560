"""A share of cells and its interval."""

from math import sqrt
from statistics import NormalDist

from reports.estimates import TAIL, Interval


def wilson_interval(successes: float, trials: float) -> Interval:
    """Return the score interval of a binomial proportion.

    The interval is within [0, 1] and never empty. Without trials it is [0, 1]. Counts that were
    divided by a design effect need not be whole numbers.

    Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference.
    Journal of the American Statistical Association 22, 209-212.
    """
    if trials == 0:
        return Interval(0.0, 1.0)
    z2 = NormalDist().inv_cdf(1 - TAIL) ** 2
    centre = (successes + z2 / 2) / (trials + z2)
    half = sqrt(z2 * (successes * (trials - successes) / trials + z2 / 4)) / (trials + z2)
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return Interval(low, high)
