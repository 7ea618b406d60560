"""Imported by Python at the start of every program of the tests: `tests.conftest` sets PYTHONPATH.

Python searches for garbage whenever 700 objects are new, which takes a fifth of the time of large
imports and finds nothing. For flow runs on workers, these thresholds save a twelfth of all
processor time.
"""

import gc

gc.set_threshold(50_000, 20, 20)
