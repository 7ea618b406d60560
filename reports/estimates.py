"""Numbers with their uncertainty."""

from dataclasses import dataclass
from math import sqrt


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
    """The variance of a value in two parts, which add up to that of a single value, above 0."""

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
        """Return that of the mean over so many instances with so many repeats each.

        `repeats` may be infinite.
        """
        return sqrt((self.between + self.within / repeats) / instances)
