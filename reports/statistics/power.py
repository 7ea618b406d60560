"""Power of a planned experiment, by the test of its report.

`discordance` is the share of pairs of cells that only one of the two arms resolves. `difference`
is the rate of the candidate minus the baseline's. With a difference of d at a discordance of s,
only the better arm resolves (s + d) / 2 of the pairs, and only the other one (s - d) / 2.
`correlation` is between the leads of two repeats of an instance. Each instance has a lead of its
own. Each of its repeats has this lead with the square root of the correlation as its chance, and
otherwise a new lead.

Without repeats the power is a sum over all numbers of discordant pairs: Duffy, S. W. (1984).
Asymptotic and exact power for the McNemar test and its analogue with R controls per case.
Biometrics 40, 1005-1015. With repeats it is the share of simulated experiments that the test
rejects, with a standard error of at most 0.8 points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, sqrt
from statistics import NormalDist

from reports.estimates import LEVEL, InstanceLeads, PairedTable
from reports.statistics.paired import PairedTest
from reports.statistics.sums import SumsModel

MOST_INSTANCES = 1_000_000
"""Upper limit of the search for a number of instances."""

RUNS = 4000
"""Number of simulated experiments with repeats."""

_NEGLIGIBLE = 1e-15
"""Probability of the numbers of discordant pairs that are left out at either end."""

_CRITICAL = NormalDist().inv_cdf(1 - LEVEL / 2)

_FEW = 100
"""Number of pairs up to which the smallest significant lead is exact. Beyond, it is the lead
of a normal test with half a pair subtracted, which is one too large for one number of pairs
in fifty."""

_UNCLEAR = 0.05
"""Distance from the critical value, in standard errors, at which a normal test may err."""


@dataclass(frozen=True)
class Design:
    """Two arms over instances with repeats, and their true rates."""

    instances: int
    repeats: int
    discordance: float
    difference: float
    correlation: float

    @property
    def has_repeats(self) -> bool:
        """True if an instance has repeats that are not all copies of the first."""
        return self.repeats > 1 and self.correlation < 1

    @property
    def gain(self) -> float:
        """Number of instances without repeats that are worth as much as one with them."""
        return self.repeats / (1 + (self.repeats - 1) * self.correlation)

    def __post_init__(self) -> None:
        """Reject impossible numbers with a ValueError."""
        if self.instances < 0:
            raise ValueError(f"{self.instances} instances: a count cannot be below 0")
        if self.repeats < 1:
            raise ValueError(f"{self.repeats} repeats: there has to be one at least")
        if not 0 <= self.correlation <= 1:
            raise ValueError(f"a correlation of {self.correlation}: it has to be between 0 and 1")
        if not 0 <= self.discordance <= 1:
            raise ValueError(f"a discordance of {self.discordance}: it has to be between 0 and 1")
        if abs(self.difference) > self.discordance:
            raise ValueError(
                f"a difference of {self.difference} with a discordance of {self.discordance}: "
                "only pairs that one arm alone resolves make a difference, so it cannot be larger"
            )


def detection_power(design: Design) -> float:
    """Return the probability that the report's test rejects no difference at `LEVEL`."""
    if not design.instances or not design.discordance:
        return 0.0
    if not design.has_repeats:
        return _exact(design)
    return sum(map(_rejects, _experiments(design))) / RUNS


def estimate_instances_needed(design: Design, power: float) -> int:
    """Return about the number of instances that has this power, by a normal test.

    The number in `design` does not matter.

    Raises:
        ValueError: the difference is 0, or the power is outside (0, 1).
    """
    _check_power(power)
    if design.difference == 0:
        raise ValueError("no number of instances shows a difference of 0")
    spread = (design.discordance - design.difference**2) / design.gain
    return 1 + int(spread * (_normal_distance(power) / design.difference) ** 2)


def instances_needed(design: Design, power: float) -> int | None:
    """Return a number of instances that has this power while one fewer has not.

    The number in `design` does not matter. It is the smallest such number, unless nearly all
    pairs are discordant: then the power rises in steps. With repeats it is precise to one in a
    hundred. Return None beyond `MOST_INSTANCES`.

    Raises:
        ValueError: the difference is 0, or the power is outside (0, 1).
    """
    guess = min(MOST_INSTANCES, estimate_instances_needed(design, power))

    def enough(instances: float) -> bool:
        return detection_power(replace(design, instances=int(instances))) >= power

    precision = max(1, guess // 100) if design.has_repeats else 1
    needed = _first(enough, guess, MOST_INSTANCES, precision)
    return None if needed is None else int(needed)


def smallest_detectable_difference(design: Design, power: float) -> float | None:
    """Return the smallest difference that the test detects with this power.

    The difference in `design` does not matter. Return None if the power is not reached even when
    one arm resolves all discordant pairs.

    Raises:
        ValueError: the power is outside (0, 1).
    """
    _check_power(power)
    error = sqrt(design.discordance / design.gain / max(1, design.instances))

    def enough(difference: float) -> bool:
        return detection_power(replace(design, difference=difference)) >= power

    guess = min(design.discordance, error * _normal_distance(power))
    precision = 1e-3 if design.has_repeats else 1e-9
    return _first(enough, guess, design.discordance, precision)


def _normal_distance(power: float) -> float:
    """Return the number of standard errors that a normal test detects with this power."""
    return _CRITICAL + NormalDist().inv_cdf(max(power, 0.5))


def _first(
    enough: Callable[[float], bool], guess: float, most: float, precision: float
) -> float | None:
    """Return where `enough` becomes true between 0 and `most`, or None if it never does.

    Look in growing steps around the guess, then halve.
    """
    low, high = 0.0, guess
    step = max(precision, guess // 16)
    if enough(guess):
        while high > step and enough(high - step):
            high, step = high - step, 2 * step
        low = max(0.0, high - step)
    else:
        low = high
        while True:
            if low >= most:
                return None
            high = min(most, low + step)
            if enough(high):
                break
            low, step = high, 2 * step
    while high - low > precision:
        middle = (low + high) // 2 if precision >= 1 else (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _exact(design: Design) -> float:
    """Return the power without repeats, over all numbers of discordant pairs."""
    import numpy as np
    from scipy.stats import binom

    counted = binom(design.instances, design.discordance)
    discordant = np.arange(counted.ppf(_NEGLIGIBLE), counted.isf(_NEGLIGIBLE) + 1)
    if design.instances <= _FEW:
        significant = np.array([_critical(design.instances, int(pairs)) for pairs in discordant])
    else:
        significant = np.ceil(_CRITICAL * np.sqrt(discordant) + 0.5)
    most = np.floor((discordant - significant) / 2)
    better = (1 + abs(design.difference) / design.discordance) / 2
    rejected = binom.cdf(most, discordant, better) + binom.cdf(most, discordant, 1 - better)
    return float(np.sum(counted.pmf(discordant) * rejected))


@lru_cache(maxsize=10_000)
def _critical(instances: int, discordant: int) -> int:
    """Return the smallest significant lead, which is larger than `discordant` if there is none."""
    share = discordant / instances / 2
    model = SumsModel(share, share, 0.0, {1: instances})
    lead = ceil(_CRITICAL * sqrt(discordant))
    while lead <= discordant and 2 * model.tails(lead).at_least >= LEVEL:
        lead += 1
    return lead


def _rejects(test: PairedTest) -> bool:
    """Return True if the test rejects no difference, by a normal approximation if that is clear."""
    leads = test.leads
    distance = (abs(leads.total) - 0.5) / sqrt(max(1e-9, test.variance()))
    margin = _UNCLEAR + 4 / leads.instances
    excess = distance - _CRITICAL
    return excess > 0 if abs(excess) > margin else test.p_value() < LEVEL


def _experiments(design: Design) -> Iterator[PairedTest]:
    """Yield the tests of simulated experiments with repeats, the same in every call."""
    import numpy as np
    from scipy.stats import multinomial

    repeats, first = design.repeats, (design.discordance - design.difference) / 2
    pair = (first, design.discordance - first, 1 - design.discordance)
    kinds = np.array([
        (worse, better)
        for worse in range(repeats + 1)
        for better in range(repeats + 1 - worse)
    ])  # fmt: skip
    cells = np.column_stack([kinds, repeats - kinds.sum(axis=1)])
    followed = sqrt(design.correlation)
    chances = np.zeros(len(cells))
    for common, chance in enumerate(pair):
        shares = (1 - followed) * np.array(pair)
        shares[common] += followed
        chances += chance * multinomial(repeats, shares / shares.sum()).pmf(cells)
    generator = np.random.default_rng(0)
    drawn = generator.multinomial(design.instances, chances / chances.sum(), size=RUNS)
    worse, better = (drawn @ kinds).T.tolist()
    steps = np.arange(-repeats, repeats + 1)
    leads = drawn @ (kinds[:, 1:] - kinds[:, :1] == steps).astype(int)
    pairs = design.instances * repeats
    for fewer, more, counts in zip(worse, better, leads.tolist(), strict=True):
        yield PairedTest(
            PairedTable(0, fewer, more, pairs - fewer - more),
            InstanceLeads(
                {
                    (repeats, lead): count
                    for lead, count in zip(steps.tolist(), counts, strict=True)
                    if count
                }
            ),
        )


def _check_power(power: float) -> None:
    if not 0 < power < 1:
        raise ValueError(f"a power of {power}: it has to be between 0 and 1")
