"""Wait for a condition, with a time limit."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

STARVED_S = 240.0
"""Time to import LiteLLM on a busy machine: a minute is too short.

This is below the limit of pytest, which does not name the condition.
"""


def wait_until(condition: Callable[[], T], *, seconds: float = 60, every_s: float = 0.02) -> T:
    """Return the first true value of `condition`, or fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"the condition was not met within {seconds} s"
        time.sleep(every_s)
    return found


async def until(condition: Callable[[], T], *, seconds: float = 60, every_s: float = 0.02) -> T:
    """Return the first true value as `wait_until` does, and let other tasks run meanwhile."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"the condition was not met within {seconds} s"
        await asyncio.sleep(every_s)
    return found


async def no_sleep(seconds: float) -> None:
    """Stand for a pause of a retry, without waiting."""
