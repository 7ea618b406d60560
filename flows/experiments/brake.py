"""Stop a run whose first cells all end as infrastructure for one cause, and name causes once.

Texts of one cause differ only in numbers and ids.
"""

import re
import time

from flows.display.terminal import say
from flows.experiments.cell_state import End
from flows.experiments.cells import Cell

_QUIET_S = 600.0
"""Minimum time between two lines about the same cause."""

_printed_at: dict[str, float] = {}


def abstract(text: str) -> str:
    """Return a text without words that have a digit: numbers, ids, addresses and times."""
    return re.sub(r"\S*\d\S*", "#", text)


def say_retry(cell: str, failure: str) -> None:
    """Print that a cell waits for its model, unless a line about the same cause is recent."""
    cause, now = abstract(failure), time.monotonic()
    if now - _printed_at.get(cause, -_QUIET_S) >= _QUIET_S:
        _printed_at[cause] = now
        say(f"{cell}: {failure}; `durabench status` shows all cells that wait")


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
