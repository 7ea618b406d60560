"""Failures of one cause: texts that differ only in numbers and ids."""

import re
import time

from flows.display.terminal import say

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
