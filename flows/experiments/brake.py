"""Stop a run whose first cells all end as infrastructure for one cause."""

from flows.experiments.causes import abstract
from flows.experiments.cell_state import End
from flows.experiments.cells import Cell

LEAST, MOST = 3, 10
"""A run is stopped after as many cells as run at the same time, within these bounds."""

_INSTANCES = 2
"""These cells are of as many instances: one instance can have a bad image."""


class Brake:
    """Looks at the first cells of a run that end."""

    def __init__(self, concurrency: int) -> None:
        self.cause: str | None = None
        """The text of the first failure, while all cells have the same one."""
        self.is_on = False
        """True once the run has to stop."""
        self._limit = min(max(concurrency, LEAST), MOST)
        self._instances = set[str]()
        self._cells, self._is_released, self._pattern = 0, False, ""

    def look(self, cell: Cell, end: End, result: str) -> None:
        """Count the end of a cell. Any other end, or another cause, releases the brake for good.

        A patch of an arm without a model does not count: it proves nothing about calls.
        """
        if end == "done" and cell.experiment.model_of(cell.arm) is None:
            return
        cause = result.partition(": ")[2]
        is_same = self.cause is None or _abstract(cause, cell) == self._pattern
        if self._is_released or end not in ("infrastructure", "misplaced") or not is_same:
            self._is_released, self.cause = True, None
            return
        if self.cause is None:
            self.cause, self._pattern = cause, _abstract(cause, cell)
        self._cells += 1
        self._instances.add(cell.instance.instance_id)
        self.is_on = self._cells >= self._limit and len(self._instances) >= _INSTANCES

    def __str__(self) -> str:
        return (
            f"stopped, because the first {self._cells} cells all ended as infrastructure for one "
            f"cause: {self.cause}. Correct it and run the experiment again"
        )


def _abstract(cause: str, cell: Cell) -> str:
    """Return a text without what differs between cells: their names, numbers and ids."""
    instance = cell.instance
    for name in (cell.label, instance.image, instance.instance_id, instance.repo):
        cause = cause.replace(name, "#")
    return abstract(cause)
