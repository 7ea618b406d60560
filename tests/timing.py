"""Short timings for programs under test, and time limits on a busy machine."""

import time

from agent.timings import Timings, variable


def as_variables(**seconds: float) -> dict[str, str]:
    """Return the environment variables of fields of `Timings`."""
    assert seconds.keys() <= Timings.model_fields.keys()
    return {variable(name): str(value) for name, value in seconds.items()}


def slowdown() -> float:
    """Return how much longer work takes now than with a processor of its own, at least 1.

    It works for 0.1 s.
    """
    began_at, before_s = time.monotonic(), time.thread_time()
    while (worked_s := time.thread_time() - before_s) < 0.1:
        pass
    return max((time.monotonic() - began_at) / worked_s, 1.0)
