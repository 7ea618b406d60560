"""Imported by Python at the start of every program of the tests: `tests.conftest` sets PYTHONPATH.

Python searches for garbage whenever 700 objects are new, which takes a fifth of the time of large
imports and finds nothing. For flow runs on workers, these thresholds save a twelfth of all
processor time.

At its end, Python searches all objects several times, which is a fifth of the time of a program
that imports the flows and does nothing else.
"""

import atexit
import gc
import sys

gc.set_threshold(50_000, 20, 20)


@atexit.register
def exempt() -> None:
    """Exempt all objects from the searches at the end."""
    if "_duckdb" not in sys.modules:  # without them, it prints that its objects are leaks
        gc.freeze()
