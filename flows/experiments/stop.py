"""The request to stop a run, shared by all its parts."""

import asyncio
import time
from typing import TYPE_CHECKING

from agent.errors import Interrupted
from agent.timings import STOP_CHECK_S

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

RESUME = "run the same command again to resume"


class Stop:
    """An operator's request to stop a run.

    All parts of the run share the same object, so that every thread and task sees the request.
    """

    def __init__(self) -> None:
        self.requested = False
        self.turn_end = asyncio.Event()
        """Set when a person ends a turn, so that tools and model calls at work are cut off."""
        self.by: State[object] | None = None
        """State of the flow run, if a state change was the request."""

    def check(self) -> None:
        """Return if the run may continue.

        Raises:
            Interrupted: the run was asked to stop; recorded work is kept.
        """
        if self.requested:
            raise Interrupted(f"stopped; {RESUME}")

    async def sleep(self, seconds: float) -> None:
        """Wait for this many seconds.

        Raises:
            Interrupted: the run was asked to stop, before or during the wait.
        """
        if await self.within(seconds):
            self.check()

    async def within(self, seconds: float) -> bool:
        """Wait for this many seconds, or until a stop is requested. Return True if it is."""
        until = time.monotonic() + seconds
        # Poll: a signal handler and other threads set the flag, and cannot set an event of the
        # loop.
        while not self.requested and (left_s := until - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left_s, STOP_CHECK_S))
        return self.requested
