"""A gate in front of the live steps of some scopes: it makes them wait, or calls them off."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from agent.errors import CalledOff

T = TypeVar("T")


class Gate:
    """Decides whether a live step of a scope may begin. Recorded steps pass without it.

    A program's calls wait here until the recorded part of the program is replayed. A call that was
    called off in an earlier run then replays what it had recorded, waits, and is called off again.
    """

    def __init__(self, *, is_open: bool = True) -> None:
        self._is_open = is_open
        self._is_held = False
        self._reason = ""
        self._decided = asyncio.Event()
        self._running: set[asyncio.Future[Any]] = set()
        self._decide()

    def _decide(self) -> None:
        if self._reason or (self._is_open and not self._is_held):
            self._decided.set()
        else:
            self._decided.clear()

    def open(self) -> None:
        """Let live steps begin."""
        self._is_open = True
        self._decide()

    def hold(self) -> None:
        """Let nothing more begin until it is known whether a failure calls everything off."""
        self._is_held = True
        self._decide()

    def release(self) -> None:
        """Let steps begin again, because the failure calls nothing off."""
        self._is_held = False
        self._decide()

    def close(self, reason: str) -> None:
        """Let nothing more begin, and end the steps in flight that cost nothing.

        Model calls in flight finish and are recorded, because they are paid.
        """
        self._reason = self._reason or reason
        self._decide()
        for task in list(self._running):
            task.cancel()

    @property
    def is_closed(self) -> bool:
        return bool(self._reason)

    async def passed(self) -> None:
        """Wait until live steps may begin.

        Raises:
            CalledOff: nothing more may begin.
        """
        while not self._decided.is_set():  # it may be held before this wakes up
            await self._decided.wait()
        self.check()

    def check(self) -> None:
        """Return if the gate is not closed.

        Raises:
            CalledOff: nothing more may begin.
        """
        if self._reason:
            raise CalledOff(self._reason)

    def watch(self, task: "asyncio.Future[Any]") -> None:
        """Cancel a task when the gate closes, unless it has ended."""
        self._running.add(task)
        task.add_done_callback(self._running.discard)


async def run(gates: Sequence[Gate], work: Awaitable[T]) -> T:
    """Run work that any of the gates may end.

    Raises:
        CalledOff: a gate was closed meanwhile.
    """
    if not gates:
        return await work
    task = asyncio.ensure_future(work)
    for gate in gates:
        gate.watch(task)
    try:
        return await task
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if caller is None or not caller.cancelling():
            for gate in gates:
                gate.check()
        raise
