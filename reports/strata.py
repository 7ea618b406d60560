"""Types of the results by order, by cut-off date, and without the cells that a budget stopped."""

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True)
class OrderStratum:
    """The cells of an arm that began at one position among the arms."""

    arm: str
    order: int
    """Position from 0."""
    cells: int
    resolved: int
    cost_per_cell: float | None
    """Mean over the cells with a fully known cost, or None if there is none."""


@dataclass(frozen=True)
class BudgetStops:
    """An arm of which a budget stopped some cells."""

    arm: str
    planned: int
    resolved: int
    stopped: int
    """Cells that a budget stopped. They count as not resolved in all other numbers."""

    @property
    def rate(self) -> float | None:
        """Resolved share of the cells that no budget stopped, or None without such cells."""
        left = self.planned - self.stopped
        return self.resolved / left if left else None


@dataclass(frozen=True)
class DateStratum:
    """The cells of an arm at instances from before or after the cut-off date of its model."""

    arm: str
    model: str
    cutoff: date
    """Last day of the data that the model was trained on."""
    is_after: bool
    instances: int
    cells: int
    resolved: int
