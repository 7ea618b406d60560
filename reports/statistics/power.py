"""Power of a planned experiment, by the exact two-sided McNemar test.

With repeats the test is the sign-flip test over instances. `effective_pairs` converts instances
with repeats to pairs.

`discordance` is the share of pairs that only one of the two arms resolves. `difference` is the
rate of the candidate minus the baseline's. With a difference of d at a discordance of s, only
the better arm resolves (s + d) / 2 of the pairs, and only the other one (s - d) / 2.

Duffy, S. W. (1984). Asymptotic and exact power for the McNemar test and its analogue with R
controls per case. Biometrics 40, 1005-1015.
"""

from bisect import bisect_left

MOST_PAIRS = 1_000_000
"""Upper limit of the search for a number of pairs."""

LEVEL = 0.05

_NEGLIGIBLE = 1e-15
"""Probability of the numbers of discordant pairs that are left out at either end."""


def mcnemar_power(pairs: int, discordance: float, difference: float, level: float = LEVEL) -> float:
    """Return the probability that the test is significant at `level`.

    It is over all numbers of discordant pairs.

    Raises:
        ValueError: not |difference| <= discordance <= 1, or the number of pairs is below 0.
    """
    import numpy as np
    from scipy.stats import binom

    _check(discordance, difference, level)
    _check_pairs(pairs)
    if discordance == 0:
        return 0.0
    counted = binom(pairs, discordance)
    discordant = np.arange(counted.ppf(_NEGLIGIBLE), counted.isf(_NEGLIGIBLE) + 1)
    critical = binom.ppf(level / 2, discordant, 0.5)
    critical -= binom.cdf(critical, discordant, 0.5) > level / 2
    better = (1 + abs(difference) / discordance) / 2
    significant = binom.cdf(critical, discordant, better) + binom.cdf(
        critical, discordant, 1 - better
    )
    return float(np.sum(counted.pmf(discordant) * significant))


def pairs_needed(
    discordance: float, difference: float, power: float, level: float = LEVEL
) -> int | None:
    """Return a number of pairs that has this power while one pair fewer has not.

    It is the smallest such number, unless nearly all pairs are discordant. Then the power rises
    in steps, and two or three pairs fewer may be enough. Return None beyond `MOST_PAIRS`.

    Raises:
        ValueError: as from `mcnemar_power`; or the difference is 0, or the power outside (0, 1).
    """
    _check(discordance, difference, level)
    _check_power(power)
    if difference == 0:
        raise ValueError("no number of pairs shows a difference of 0")

    def enough(pairs: int) -> bool:
        return mcnemar_power(pairs, discordance, difference, level) >= power

    high = 1
    while not enough(high):
        high *= 2
        if high > MOST_PAIRS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def smallest_detectable_difference(
    pairs: int, discordance: float, power: float, level: float = LEVEL
) -> float | None:
    """Return the smallest difference that the test detects with this power.

    Return None if the power is not reached even when one arm resolves all discordant pairs.

    Raises:
        ValueError: as from `mcnemar_power`, or the power is outside (0, 1).
    """
    from scipy.optimize import brentq

    _check(discordance, 0.0, level)
    _check_pairs(pairs)
    _check_power(power)

    def missing(difference: float) -> float:
        return mcnemar_power(pairs, discordance, difference, level) - power

    if missing(discordance) < 0:
        return None
    if missing(0.0) >= 0:
        return 0.0
    return float(brentq(missing, 0.0, discordance, xtol=1e-9))


def effective_pairs(instances: int, repeats: int, correlation: float, level: float = LEVEL) -> int:
    """Return the number of independent pairs that instances with repeats are worth.

    The number applies to the sign-flip test and is rounded down. `correlation` is that of the
    paired difference within an instance. At 1 repeats add nothing. At 0 each repeat is worth
    nearly another instance: the spread between instances is known from these instances only,
    which costs the squared ratio of Student's quantile to the normal one. If all instances
    together cannot reach the level, repeats do not help.

    In simulations of the exact test, the power by this number is at most 8 points too high. It
    is too low for few instances with similar repeats. The mid-p-value, which decides if cells
    repeat, detects slightly more.

    Kish, L. (1965). Survey Sampling. Wiley, chapter 5: the design effect. For the McNemar
    test: Gonen, M. (2004). Sample size and power for McNemar's test with clustered data.
    Statistics in Medicine 23, 2283-2294.

    Raises:
        ValueError: a count is impossible, or the correlation is outside [0, 1].
    """
    from scipy.special import ndtri, stdtrit

    _check_pairs(instances)
    if repeats < 1:
        raise ValueError(f"{repeats} repeats: there has to be one at least")
    if not 0 <= correlation <= 1:
        raise ValueError(f"a correlation of {correlation}: it has to be between 0 and 1")
    if 2 ** (1 - instances) > level:
        return instances
    normal, student = ndtri(level / 2), stdtrit(instances - 1, level / 2)
    pairs = instances * repeats / (1 + (repeats - 1) * correlation)
    return max(instances, int(pairs * (normal / student) ** 2 + 1e-9))


def instances_needed(pairs: int, repeats: int, correlation: float, level: float = LEVEL) -> int:
    """Return the fewest instances that are worth this number of pairs, by `effective_pairs`.

    Raises:
        ValueError: as from `effective_pairs`.
    """

    return bisect_left(
        range(pairs),
        pairs,
        key=lambda instances: effective_pairs(instances, repeats, correlation, level),
    )


def _check(discordance: float, difference: float, level: float) -> None:
    if not 0 <= discordance <= 1:
        raise ValueError(f"a discordance of {discordance}: it has to be between 0 and 1")
    if abs(difference) > discordance:
        raise ValueError(
            f"a difference of {difference} with a discordance of {discordance}: only pairs that "
            "one arm alone resolves make a difference, so it cannot be larger"
        )
    if not 0 < level < 1:
        raise ValueError(f"a level of {level}: it has to be between 0 and 1")


def _check_pairs(pairs: int) -> None:
    if pairs < 0:
        raise ValueError(f"{pairs} pairs: a count cannot be below 0")


def _check_power(power: float) -> None:
    if not 0 < power < 1:
        raise ValueError(f"a power of {power}: it has to be between 0 and 1")
