"""What a running experiment may conclude, however often somebody looks."""

from math import exp, lgamma, log

_LARGEST = 700.0
"""Logarithm of the largest value that is returned."""


def paired_e_value(ahead: int, behind: int) -> float:
    """Return the evidence against equal arms, which is valid at every look.

    `ahead` and `behind` are the complete instances at which one arm or the other resolves more. If
    the arms are alike, each of these signs is a toss of a fair coin, whatever came before. The
    value is the likelihood of the signs, averaged over all chances of a head with equal weight,
    divided by their likelihood under the fair coin. It is a martingale with mean 1, so that it
    reaches 1 / alpha at any time in at most a share alpha of the experiments (Ville's inequality).
    It is 1 without signs, and at most e^700.

    Robbins, H. (1970). Statistical methods related to the law of the iterated logarithm. Annals of
    Mathematical Statistics 41, 1397-1409. Howard, S. R., Ramdas, A., McAuliffe, J. and Sekhon, J.
    (2021). Time-uniform, nonparametric, nonasymptotic confidence sequences. Annals of Statistics
    49, 1055-1080.

    Raises:
        ValueError: a count is below 0.
    """
    if min(ahead, behind) < 0:
        raise ValueError(f"{ahead} ahead and {behind} behind: a count cannot be below 0")
    signs = ahead + behind
    mixture = lgamma(ahead + 1) + lgamma(behind + 1) - lgamma(signs + 2)
    return exp(min(_LARGEST, mixture + signs * log(2)))
