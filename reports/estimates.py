"""Numbers with their uncertainty."""

from dataclasses import dataclass


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
