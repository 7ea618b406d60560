"""Stopping a run without losing what is being paid for.

The first Ctrl-C or SIGTERM lets the calls and commands in flight finish and be recorded;
nothing new is begun. What is still running after `GRACE_S` is cut off, and so is everything
at the second signal.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType

from agent.errors import Interrupted
from flows.progress import say

GRACE_S = 25.0


@dataclass
class Stop:
    """Whether the operator asked the run to stop."""

    requested: bool = False

    def check(self) -> None:
        """Return if the run may go on.

        Raises:
            Interrupted: it may not; what is recorded is kept.
        """
        if self.requested:
            raise Interrupted("stopped; run the same command again to go on from there")


current: ContextVar[Stop] = ContextVar("stop")
"""The stop of the run that this code belongs to."""


def check() -> None:
    """As `Stop.check`, for code of a run that may have none."""
    stop = current.get(None)
    if stop is not None:
        stop.check()


@contextmanager
def graceful_stop() -> Iterator[Stop]:
    """Take over both signals for the length of a flow, in the main thread."""
    stop, task, loop = Stop(), asyncio.current_task(), asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.getsignal(number) for number in signals}

    def cut_off() -> None:
        if task is not None:
            task.cancel()

    def asked(number: int, frame: FrameType | None) -> None:
        stop.requested = True
        for each, handler in previous.items():
            signal.signal(each, handler)
        loop.call_soon_threadsafe(loop.call_later, GRACE_S, cut_off)
        say("stopping: calls in flight are finished and recorded; once more stops at once")

    for number in signals:
        signal.signal(number, asked)
    token = current.set(stop)
    try:
        yield stop
    finally:
        current.reset(token)
        for number, handler in previous.items():
            signal.signal(number, handler)
