"""Limits of the steps of a scope: time, gates that call them off, and the end of a turn."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from agent.errors import CalledOff, Interrupted, TurnEnded
from agent.journal import RecordedStep
from agent.timings import STOP_CHECK_S

T = TypeVar("T")


class Deadline:
    """The moment at which a line of work has to end. Create it when the work starts or resumes."""

    def __init__(self, what: str, limit_s: float, spent_s: float = 0.0) -> None:
        """Subtract `spent_s`, the time that earlier runs used, from the limit."""
        self.what = f"{what} has used its {limit_s:g} s"
        self._ends_at = time.monotonic() + limit_s - spent_s

    def spend(self, seconds: float) -> None:
        """Count time that another attempt spent on a step of this one."""
        self._ends_at -= seconds

    @property
    def left_s(self) -> float:
        """Remaining seconds; negative once the deadline has passed."""
        return self._ends_at - time.monotonic()


def get_covered_s(steps: Iterable[RecordedStep]) -> float:
    """Return the seconds during which at least one step was running. Overlaps count once."""
    spans = sorted(
        (step.started_at, step.started_at + timedelta(seconds=step.duration_s or 0.0))
        for step in steps
    )
    total, reached = 0.0, None
    for start, end in spans:
        begin = start if reached is None or start > reached else reached
        if end > begin:
            total += (end - begin).total_seconds()
            reached = end
    return total


class Gate:
    """Decides whether a live step of a scope can start. Recorded steps pass without it.

    A program's calls wait here until the recorded part of the program is replayed. A call that was
    called off in an earlier run then replays what it had recorded, waits, and is called off again.
    """

    def __init__(self, *, is_open: bool = True) -> None:
        self._is_open, self._is_held, self._reason = is_open, False, ""
        self._decided = asyncio.Event()
        self._running: set[asyncio.Future[Any]] = set()
        self._decide()

    def _decide(self) -> None:
        if self._reason or (self._is_open and not self._is_held):
            self._decided.set()
        else:
            self._decided.clear()

    def open(self) -> None:
        """Let live steps start."""
        self._is_open = True
        self._decide()

    def hold(self) -> None:
        """Let no further step start until it is clear whether a failure calls everything off."""
        self._is_held = True
        self._decide()

    def release(self) -> None:
        """Let steps start again, because the failure calls nothing off."""
        self._is_held = False
        self._decide()

    def close(self, reason: str) -> None:
        """Let no further step start, and end the steps in flight that cost nothing.

        Model calls in flight finish and are recorded, because they are paid.
        """
        self._reason = self._reason or reason
        self._decide()
        for task in list(self._running):
            task.cancel()

    @property
    def is_closed(self) -> bool:
        return bool(self._reason)

    async def wait(self) -> None:
        """Wait until live steps can start.

        Raises:
            CalledOff: the gate is closed.
        """
        while not self._decided.is_set():  # it may be held before this wakes up
            await self._decided.wait()
        self.check()

    def check(self) -> None:
        """Return if the gate is not closed.

        Raises:
            CalledOff: the gate is closed.
        """
        if self._reason:
            raise CalledOff(self._reason)

    def watch(self, task: "asyncio.Future[Any]") -> None:
        """Cancel a task when the gate closes, unless it has ended."""
        self._running.add(task)
        task.add_done_callback(self._running.discard)


async def run_behind(gates: Sequence[Gate], work: Awaitable[T]) -> T:
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


async def run_in_turn(
    run: Callable[[], Awaitable[T]], turn_end: asyncio.Event | None, *, is_call: bool
) -> T:
    """Return the result of work or of a model call, unless a person ends the turn before.

    A call that was cut off may have been paid. Its intent stays without a result, as after a
    crash: the next run of the attempt bills it as lost, and repeats it.

    Raises:
        TurnEnded: the work was cut off.
        Interrupted: the call was cut off; NotSent if it had not reached a provider.
    """
    if turn_end is None:
        return await run()
    task, ending = asyncio.ensure_future(run()), asyncio.create_task(turn_end.wait())
    try:
        await asyncio.wait({task, ending}, return_when=asyncio.FIRST_COMPLETED)
        if is_call and not task.done():
            # A call that still waits to be sent detects the stop by itself: it is free.
            await asyncio.wait({task}, timeout=2 * STOP_CHECK_S)
        if task.done():
            return task.result()
    finally:
        task.cancel()
        ending.cancel()
        await asyncio.wait({task, ending})
    if not is_call:
        raise TurnEnded("a person ended the turn before this had finished; its changes are lost")
    if task.cancelled():
        raise Interrupted("a person ended the turn during a model call")
    return task.result()
