"""Types of the economic evaluation: which arm is worth its cost. All costs are in USD."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from reports.estimates import Estimate, Interval, Standing

STANDINGS: Mapping[Standing, str] = {
    "efficient": "on the frontier",
    "dominated": "dominated",
    "extended": "dominated by extension",
}

LeftOut = Literal["control", "unknown", "unmetered", "sparse"]

LEFT_OUT: Mapping[LeftOut, str] = {
    "control": "it is a control",
    "unknown": "no cost is known",
    "unmetered": "all its known costs are 0",
    "sparse": "the cost of more than half of its cells is unknown",
}
"""Reasons for an arm to have no place in the evaluation."""


@dataclass(frozen=True)
class Increment:
    """A step along the frontier, from one arm to the next dearer one."""

    after: str
    usd: float
    """Additional cost per additional resolved cell."""
    interval: Interval
    """95 % interval by Fieller's method. A side is infinite if the difference of resolution is
    not clear of 0 on that side."""


@dataclass(frozen=True)
class ArmWorth:
    """One arm in the economic evaluation."""

    arm: str
    position: int
    """Position in the declaration, which gives the arm its colour."""
    rate: float
    """Resolved share of the planned cells."""
    cost_usd: float
    """Mean cost of the cells with a fully known cost."""
    priced: int
    """Number of these cells."""
    planned: int
    standing: Standing
    beaten_by: tuple[str, ...]
    increment: Increment | None
    best_from: float | None
    """Least value of a resolved instance at which no arm has a higher net benefit. None off the
    frontier."""
    best_to: float | None
    """Largest such value. None off the frontier and for the arm that resolves most."""
    net_benefit: Estimate | None
    """Mean net benefit per cell at the declared willingness to pay."""


@dataclass(frozen=True)
class Acceptability:
    """Shares of the resamples in which each arm has the highest net benefit."""

    values: tuple[float, ...]
    """Values of a resolved instance in USD, ascending."""
    shares: Mapping[str, tuple[float, ...]]
    """Shares by arm, one per value. They add up to 1 over the arms."""
    frontier: tuple[str, ...]
    """The arm with the highest mean net benefit at each value."""


@dataclass(frozen=True)
class Worth:
    """The economic evaluation of all arms with a known cost."""

    arms: tuple[ArmWorth, ...]
    """Arms by ascending cost."""
    left_out: Mapping[str, LeftOut]
    """Reason by arm."""
    willingness_to_pay: float | None
    """Declared value of a resolved instance in USD."""
    acceptability: Acceptability | None
    """None with fewer than two arms or fewer than two instances."""
    instances: int
    resamples: int
    seed: int

    def arm(self, name: str) -> ArmWorth:
        """Return the arm of this name."""
        return next(arm for arm in self.arms if arm.arm == name)

    @property
    def frontier(self) -> tuple[ArmWorth, ...]:
        """Arms on the frontier, by ascending cost."""
        return tuple(arm for arm in self.arms if arm.standing == "efficient")
