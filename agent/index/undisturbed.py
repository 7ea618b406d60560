"""Settings of the process during long work on many small objects."""

import gc
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_one_at_a_time = threading.RLock()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Suppress warnings and garbage collection while many files are parsed or resolved.

    The warnings are about other people's code. Garbage collection takes longer than parsing and
    finds nothing, because trees have no cycles. Both are settings of the whole process, so only one
    thread at a time runs such a block.

    Afterwards the new objects are in the oldest generation of the garbage collector, as objects are
    that survived its collections. Otherwise the next collection of the youngest would traverse all
    of them.
    """
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            gc.freeze()
            gc.unfreeze()
            if collects:
                gc.enable()
