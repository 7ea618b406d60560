"""A share of cells and its interval."""

from reports.types import Interval


def wilson_interval(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Score interval of a binomial proportion; stays within [0, 1] and is never empty.

    Without trials it is [0, 1]. Raises ValueError unless 0 <= successes <= trials.

    Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference.
    Journal of the American Statistical Association 22, 209-212.
    """
    from scipy.stats import binomtest  # here because scipy.stats takes half a second to import

    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials")
    if trials == 0:
        return Interval(0.0, 1.0)
    found = binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    return Interval(float(found.low), float(found.high))
