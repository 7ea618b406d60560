"""Types of the sensitivity to unknown costs. All costs are in USD."""

from dataclasses import dataclass
from typing import Literal

from reports.estimates import Interval

Certainty = Literal["on", "off", "open"]
"""Place of an arm against the frontier, whatever its own and all other unknown costs are."""

CERTAINTIES: dict[Certainty, str] = {
    "on": "on the frontier anyway",
    "off": "off the frontier anyway",
    "open": "depends on the unknown costs",
}


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
class PairUnknowns:
    """Numbers of two arms with unknown costs replaced, over all pairs that ran in both arms."""

    cells: int
    """Number of cells without a fully known cost."""
    pairs: int
    ratio: Imputed
    """Candidate's cost divided by baseline's."""
    difference: Imputed
    """Candidate's mean cost per cell minus baseline's."""
    baseline_per_resolved: Imputed | None
    """None if the arm resolves none of these cells."""
    candidate_per_resolved: Imputed | None
    ratio_per_resolved: Imputed | None


@dataclass(frozen=True)
class ArmUnknowns:
    """Numbers of one arm with unknown costs replaced, over its cells that ran."""

    arm: str
    cells: int
    """Number of cells without a fully known cost."""
    ran: int
    per_cell: Imputed
    per_resolved: Imputed | None
    """None if the arm resolves nothing."""
    place: Certainty | None
    """None if the arm is left out of the economic evaluation."""
