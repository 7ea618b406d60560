"""Inputs and results of statistics: numbers with their uncertainty, and counts of pairs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Literal

LEVEL = 0.05
"""From this p-value on, a difference may be chance."""

TAIL = 0.025
"""Share of a distribution beyond each limit of an interval of 95 %."""

Standing = Literal["efficient", "dominated", "extended"]
"""Place of an arm against the frontier. `dominated`: another arm resolves as much or more for as
much or less. `extended`: a mixture of two other arms does."""


@dataclass(frozen=True)
class Interval:
    """A two-sided interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A number with its interval from a bootstrap over clusters."""

    value: float
    interval: Interval
    """A bound is infinite if too many resamples are degenerate. With one cluster, both are."""
    clusters: int
    """Number of instances or repositories that were resampled."""
    degenerate: int
    """Number of resamples in which the number is undefined or infinite. An example is the cost
    per resolved instance if none is resolved."""


@dataclass(frozen=True)
class Split:
    """The variance of a single value in two parts that add up to it. It is above 0."""

    between: float
    """Between instances."""
    within: float
    """Between the repeats of an instance."""

    @property
    def total(self) -> float:
        """Variance of a single value."""
        return self.between + self.within

    @property
    def correlation(self) -> float:
        """Similarity of the values of an instance: 0 as by chance, 1 all the same, ICC(1).

        Shrout, P. E. and Fleiss, J. L. (1979). Intraclass correlations: uses in assessing rater
        reliability. Psychological Bulletin 86, 420-428.
        """
        return self.between / self.total

    def standard_error(self, instances: float, repeats: float) -> float:
        """Return the standard error of the mean over these instances with these repeats each.

        `repeats` may be infinite.
        """
        return sqrt((self.between + self.within / repeats) / instances)


@dataclass(frozen=True)
class Imputed:
    """One number with unknown costs replaced."""

    at_mean: float
    """Each unknown cost is the mean of its arm."""
    at_maximum: float
    """Each unknown cost is the maximum of its arm."""
    bounds: Interval
    """Lower and upper bound: each unknown cost is between its known part, at least 0, and the
    maximum of its arm."""


@dataclass(frozen=True)
class PairedTable:
    """Cells planned in both arms, counted by the arms that resolved them.

    Raises:
        ValueError: a count is below 0.
    """

    both: int
    only_baseline: int
    only_candidate: int
    neither: int

    def __post_init__(self) -> None:
        """Reject negative counts."""
        if min(self.both, self.only_baseline, self.only_candidate, self.neither) < 0:
            raise ValueError(f"{self}: a count cannot be below 0")

    @property
    def pairs(self) -> int:
        """Number of all pairs."""
        return self.both + self.only_baseline + self.only_candidate + self.neither

    @property
    def difference(self) -> float:
        """Rate of the candidate minus rate of the baseline.

        Raises:
            ValueError: the table is empty.
        """
        if not self.pairs:
            raise ValueError("a table without pairs has no difference")
        return (self.only_candidate - self.only_baseline) / self.pairs

    @property
    def discordant(self) -> int:
        """Pairs that only one of the two arms resolved."""
        return self.only_baseline + self.only_candidate


@dataclass(frozen=True)
class InstanceLeads:
    """The candidate's lead in resolved cells, instance by instance."""

    counts: Mapping[tuple[int, int], int]
    """Number of instances by their number of pairs of cells and by their lead, which is below 0 if
    the baseline resolves more of them."""

    @property
    def instances(self) -> int:
        """Number of all instances."""
        return sum(self.counts.values())

    @property
    def pairs(self) -> int:
        """Number of all pairs of cells."""
        return sum(pairs * instances for (pairs, _), instances in self.counts.items())

    @property
    def total(self) -> int:
        """Sum of all leads."""
        return sum(lead * instances for (_, lead), instances in self.counts.items())

    @property
    def differing(self) -> int:
        """Number of instances at which one arm resolves more cells than the other."""
        return sum(instances for (_, lead), instances in self.counts.items() if lead)

    @property
    def has_repeats(self) -> bool:
        """True if an instance has more than one pair of cells."""
        return any(pairs > 1 for pairs, _ in self.counts)

    @cached_property
    def sizes(self) -> Mapping[int, int]:
        """Number of instances by their number of pairs."""
        sizes: Counter[int] = Counter()
        for (pairs, _), instances in self.counts.items():
            sizes[pairs] += instances
        return sizes

    @cached_property
    def squared_sizes(self) -> int:
        """Sum of the squared numbers of pairs."""
        return sum(pairs**2 * instances for pairs, instances in self.sizes.items())

    @cached_property
    def carriers(self) -> float:
        """Number of instances that carry the sum of squared leads: all differing ones if their
        leads are of one size, and 1 if one instance has all of it."""
        second, fourth = (
            sum(lead**power * instances for (_, lead), instances in self.counts.items())
            for power in (2, 4)
        )
        return second**2 / fourth if fourth else 0.0

    def spread(self, difference: float) -> float:
        """Return the sum of squared leads about a difference per pair, a share."""
        return sum(
            (lead - pairs * difference) ** 2 * instances
            for (pairs, lead), instances in self.counts.items()
        )


@dataclass(frozen=True)
class FrontierPlace:
    """Place of one option among several that cost and achieve something."""

    standing: Standing
    beaten_by: tuple[int, ...] = ()
    """Positions of the option that dominates it, or of the two whose mixture does."""
    after: int | None = None
    """Position of the option before it on the frontier. None for the first and off the frontier."""
    incremental: float | None = None
    """Additional cost per additional effect against `after`."""
