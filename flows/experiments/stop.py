"""The request to stop a run, as everything that belongs to the run sees it."""

import asyncio
import time
from typing import TYPE_CHECKING

from agent.errors import Interrupted
from agent.timings import timings

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

RESUME = "run the same command again to go on from there"


class Stop:
    """An operator's request to stop a run.

    It is handed to everything that belongs to the run, so that each thread and task sees the
    same one.
    """

    def __init__(self) -> None:
        self.requested = False
        self.by: State[object] | None = None
        """The state that the flow run was put into, where that was the request."""

    def check(self) -> None:
        """Return if the run may go on.

        Raises:
            Interrupted: it may not; what is recorded is kept.
        """
        if self.requested:
            raise Interrupted(f"stopped; {RESUME}")

    async def sleep(self, seconds: float) -> None:
        """Wait so long.

        Raises:
            Interrupted: the run was asked to stop, before or meanwhile.
        """
        if not await self.within(seconds):
            return
        self.check()

    async def within(self, seconds: float) -> bool:
        """Wait so long, or until the run is asked to stop. Return whether it is."""
        until = time.monotonic() + seconds
        # A signal handler and other threads ask, too, and could not set an event of the loop.
        while not self.requested and (left_s := until - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left_s, timings().stop_check_s))
        return self.requested
