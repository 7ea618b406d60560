"""What a planned experiment will be able to see, by the exact two-sided McNemar test.

With repeats it is the sign-flip test over instances, and `effective_pairs` leads back to pairs.

`discordance` is the share of pairs that only one of the two arms resolves, `difference` the
rate of the candidate minus the baseline's: a difference of d at a discordance of s means that
only the better arm resolves (s + d) / 2 of the pairs, and only the other (s - d) / 2.

Duffy, S. W. (1984). Asymptotic and exact power for the McNemar test and its analogue with R
controls per case. Biometrics 40, 1005-1015.
"""

from bisect import bisect_left

MOST_PAIRS = 1_000_000
"""Where the search for a number of pairs ends."""

LEVEL = 0.05


def mcnemar_power(pairs: int, discordance: float, difference: float, level: float = LEVEL) -> float:
    """Chance that the test is significant at `level`, over all numbers of discordant pairs.

    Raises ValueError for shares that cannot be, as |difference| <= discordance <= 1, and for a
    number of pairs below 0.
    """
    import numpy as np
    from scipy.stats import binom

    _check(discordance, difference, level)
    _check_pairs(pairs)
    if discordance == 0:
        return 0.0
    # Beyond ten standard deviations there is less than rounding error.
    spread = 10 * (pairs * discordance * (1 - discordance)) ** 0.5 + 1
    fewest = max(0, int(pairs * discordance - spread))
    most = min(pairs, int(pairs * discordance + spread) + 1)
    discordant = np.arange(fewest, most + 1)
    critical = binom.ppf(level / 2, discordant, 0.5)
    critical -= binom.cdf(critical, discordant, 0.5) > level / 2
    better = (1 + abs(difference) / discordance) / 2
    significant = binom.cdf(critical, discordant, better) + binom.cdf(
        critical, discordant, 1 - better
    )
    return float(np.sum(binom.pmf(discordant, pairs, discordance) * significant))


def pairs_needed(
    discordance: float, difference: float, power: float, level: float = LEVEL
) -> int | None:
    """Pairs with which the test has this power and one pair fewer has not.

    The fewest there are, except where nearly all pairs are discordant: there the power goes up
    in steps, and two or three pairs fewer may do. None beyond `MOST_PAIRS`.

    Raises ValueError as `mcnemar_power` does, and for a difference of 0 or a power outside
    (0, 1).
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
    """The smallest difference that the test finds with this power.

    None where it does not even find that one arm resolves all discordant pairs. Raises
    ValueError as `mcnemar_power` does, and for a power outside (0, 1).
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
    """How many independent pairs `repeats` at each instance are worth to the sign-flip test.

    Rounded down. `correlation` is that of the paired difference within an instance: at 1
    repeats add nothing, at 0 each is worth nearly another instance. Nearly, as the spread
    between instances is known from these instances only, which costs what Student's quantile
    is above the normal one, squared; and where all instances together cannot reach the level,
    repeats do not help. Against simulations of the exact test the power is at most 8 points too
    high, and too low where few instances have repeats that are alike. The mid-p, which decides
    where cells repeat, finds a little more.

    Raises ValueError for a count that cannot be or a correlation outside [0, 1].

    Kish, L. (1965). Survey Sampling. Wiley, chapter 5: the design effect. For the McNemar
    test: Gonen, M. (2004). Sample size and power for McNemar's test with clustered data.
    Statistics in Medicine 23, 2283-2294.
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
    """The fewest instances that are worth so many pairs, by `effective_pairs`.

    Raises ValueError as `effective_pairs` does.
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
