"""The statistics of a report, one small function each. Checked against statsmodels in tests."""

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


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided p-value of the hypothesis that both discordant outcomes are equally likely.

    Conditional on the number of discordant pairs, which is binomial with one half; 1 when
    there is none.

    McNemar, Q. (1947). Note on the sampling error of the difference between correlated
    proportions or percentages. Psychometrika 12, 153-157. Exact form: Fagerland, Lydersen and
    Laake (2013). BMC Medical Research Methodology 13, 91.
    """
    from scipy.stats import binomtest

    discordant = only_first + only_second
    if discordant == 0:
        return 1.0
    return float(binomtest(min(only_first, only_second), discordant).pvalue)
