"""Evidence that stays valid at every look at a running experiment."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

_LARGEST = 700.0
"""Logarithm of the largest value that is returned."""

_STAKES = 200


@dataclass(frozen=True)
class PairedEvidence:
    """The evidence of complete instances on two arms, which have a verdict for every cell."""

    differences: Mapping[float, int]
    """Complete instances by the share of cells that the candidate resolves, less the share
    of the baseline."""

    @property
    def complete(self) -> int:
        """Number of complete instances."""
        return sum(self.differences.values())

    @property
    def candidate_leads(self) -> int:
        """Number of complete instances at which the candidate resolves more cells."""
        return sum(number for share, number in self.differences.items() if share > 0)

    @property
    def baseline_leads(self) -> int:
        """Number of complete instances at which the baseline resolves more cells."""
        return sum(number for share, number in self.differences.items() if share < 0)

    @property
    def difference(self) -> float:
        """Mean difference over complete instances. There must be at least one."""
        return sum(share * n for share, n in self.differences.items()) / self.complete

    @property
    def e_value(self) -> float:
        """Evidence against equal arms, valid at every look."""
        return compute_e_value(self.differences)


def compute_e_value(differences: Mapping[float, int]) -> float:
    """Return the evidence against arms of equal resolution, which is valid at every look.

    `differences` are the numbers of complete instances by the share of cells that the candidate
    resolves, less the share of the baseline: from -1 to 1. A player bets on each of them in turn.
    With a stake s, from above -1 to below 1, a difference d multiplies the money by 1 + s d. If the
    expected difference is 0, whatever came before, the money is a martingale with mean 1, and so is
    its average over stakes. It reaches 1 / alpha at any time in at most a share alpha of the
    experiments (Ville's inequality). The stakes are the nodes of Gauss and Legendre with their
    weights. The average is exactly that over all stakes with equal weight for fewer than 400
    instances, and valid for any number. Without repeats, this is the likelihood of the signs,
    averaged over all chances of a coin, over that of a fair coin. The value is 1 without
    instances, and at most e^700.

    Robbins, H. (1970). Statistical methods related to the law of the iterated logarithm. Annals of
    Mathematical Statistics 41, 1397-1409. Waudby-Smith, I. and Ramdas, A. (2024). Estimating means
    of bounded random variables by betting. Journal of the Royal Statistical Society B 86, 1-27.
    """
    stakes, weights = _stakes()
    money = weights + sum(
        number * np.log1p(stakes * share) for share, number in differences.items()
    )
    return float(np.exp(min(_LARGEST, np.logaddexp.reduce(money))))


@cache
def _stakes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the stakes and the logarithms of their weights, which add up to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(_STAKES)
    return nodes, np.log(weights / 2)
