"""Arms that share draws: types of a report."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sharing:
    """One arm that derives from another, over its attempts that count."""

    arm: str
    derived_from: str
    origin: str
    """The first arm of the chain."""
    attempts: int
    calls: int
    """Answered model calls that the arm is credited with."""
    reused_calls: int
    """Those of them that were bought for the attempts of the other arm."""
    credited_usd: float | None
    """Cost of all these calls: what the arm costs alone. None if it is unknown."""
    reused_usd: float | None
    """The part of it that was bought for the other arm, and is saved. None if it is unknown."""
    billed_usd: float | None
    """Cost of what was bought for this arm. None if it is unknown."""
    incomplete_cells: int
    """Cells without a fully known cost. If there are any, the first two are lower bounds."""
    unbilled_cells: int
    """Cells with an unknown bill. If there are any, `billed_usd` is a lower bound."""
