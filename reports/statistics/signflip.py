"""The permutation test of two arms over instances with any number of cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from reports.types import PValues

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Chances = NDArray[np.float64]

_NEGLIGIBLE = 1e-300
"""Smaller probabilities are dropped, before floating-point numbers lose their precision."""


def sign_flip(leads: Mapping[int, int]) -> PValues:
    """Return two-sided p-values of the hypothesis that either arm is equally likely to lead.

    `leads` has the number of instances by lead: resolved cells of the candidate minus resolved
    cells of the baseline at one instance. If the arms are equal, the lead of an instance might
    as well have the other sign, however its repeats are correlated. The p-value is the share of
    all assignments of signs whose sum is at least as far from 0 as the observed one. It is
    exact: the probability of every sum is the convolution of those of single instances, without
    simulation. An instance with equally many resolved cells is no evidence for either arm. If
    there are no other instances, both p-values are 1.

    With one cell per instance and arm, all leads are -1, 0 or 1, the sum is binomial, and the
    test is McNemar's exact one. The smallest possible value with k differing instances is
    2^(1-k), so that it never rejects at 5 % with fewer than six.

    The mid-p-value counts half of the observed outcome's probability. It is less conservative
    if few instances differ, and not guaranteed to keep the level.

    The test: Fisher, R. A. (1935). The Design of Experiments. Oliver & Boyd, section 21. The
    convolution: Pagano, M. and Tritchler, D. (1983). On obtaining permutation distributions in
    polynomial time. Journal of the American Statistical Association 78, 435-440. Mid-p:
    Lancaster, H. O. (1961). Significance tests in discrete distributions. Journal of the
    American Statistical Association 56, 223-234.

    Raises:
        ValueError: a number of instances is below 0.
    """
    sizes: Counter[int] = Counter()
    for lead, instances in leads.items():
        if instances < 0:
            raise ValueError(f"{instances} instances with a lead of {lead}: fewer than none")
        if lead:
            sizes[abs(lead)] += instances
    if not sizes.total():
        return PValues(1.0, 1.0)
    observed = abs(sum(lead * instances for lead, instances in leads.items()))
    return _p_values(_chances(sizes), observed)


def _p_values(chances: Chances, observed: int) -> PValues:
    """Return the p-values of a sum.

    `chances` has the probabilities of all sums in steps of 2, symmetric about 0.
    """
    place = (len(chances) - 1 + observed) // 2
    if place >= len(chances):
        return PValues(0.0, 0.0)
    at = float(chances[place]) * (1 if observed == 0 else 2)
    beyond = 2 * float(chances[place + 1 :].sum())
    return PValues(exact=min(1.0, beyond + at), mid_p=min(1.0, beyond + at / 2))


def _chances(sizes: Mapping[int, int]) -> Chances:
    """Return the probability of every sum of leads of these sizes with random signs."""
    import numpy as np

    chances = np.ones(1)
    for size, instances in sizes.items():
        if instances:
            chances = _that_matter(_spread(chances, _tosses(instances), size))
    return chances


def _spread(chances: Chances, tosses: Chances, size: int) -> Chances:
    """Convolve with tosses that are `size` steps apart, separately for each remainder by `size`."""
    import numpy as np

    spread = np.zeros(len(chances) + size * (len(tosses) - 1))
    for start in range(min(size, len(chances))):
        spread[start::size] = np.convolve(chances[start::size], tosses)
    return spread


def _that_matter(chances: Chances) -> Chances:
    """Drop the negligible probabilities at both ends."""
    import numpy as np

    places = np.flatnonzero(chances > _NEGLIGIBLE)
    return chances[places[0] : places[-1] + 1]


@lru_cache(maxsize=1024)
def _tosses(coins: int) -> Chances:
    """Return the probability of every number of heads. Pairs of arms often share the numbers.

    It is computed from the middle outwards, so that no factor overflows.
    """
    import numpy as np

    start = (coins + 1) // 2
    heads = np.arange(start, coins)
    upper = np.cumprod(np.concatenate([[1.0], (coins - heads) / (heads + 1)]))
    lower = upper[:0:-1] if coins % 2 == 0 else upper[::-1]
    chances = np.concatenate([lower, upper])
    return _that_matter(chances / chances.sum())
