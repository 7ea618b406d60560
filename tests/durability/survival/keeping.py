"""Keep an attempt going: start a worker again after it failed, with a wait that grows."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from tenacity import AsyncRetrying, retry_if_result, stop_after_attempt, wait_exponential

from agent.errors import InfrastructureError
from tests.durability.survival import worker

TRIES = 4
FIRST_WAIT_S = 1.0
"""Each further wait is twice as long."""


@dataclass(frozen=True)
class Worked:
    """One worker. Times are in seconds, by the monotonic clock."""

    began_at: float
    ended_at: float
    exit_code: int
    """Minus the number of the signal, if one killed it."""
    said: str
    """The failure in one line; '' without one."""

    @property
    def has_failed(self) -> bool:
        return self.exit_code != 0


Watch = Callable[[asyncio.subprocess.Process, int], Awaitable[None]]
"""Watches a worker while it runs. Takes its number, from 1."""


async def kept_going(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    watch: Watch,
    has_failed: Callable[[int, Worked], None],
) -> list[Worked]:
    """Start workers until one of them ends the attempt. Return all of them.

    `has_failed` is called with a worker that failed, before the wait for the next one.

    Raises:
        InfrastructureError: every worker failed.
    """
    workers: list[Worked] = []

    async def try_once() -> Worked:
        done = await _worked(arguments, environment, lambda each: watch(each, len(workers) + 1))
        workers.append(done)
        if done.has_failed:
            has_failed(len(workers), done)
        return done

    tries = AsyncRetrying(
        retry=retry_if_result(lambda done: done.has_failed),
        wait=wait_exponential(multiplier=FIRST_WAIT_S),
        stop=stop_after_attempt(TRIES),
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )
    last: Worked = await tries(try_once)
    if last.has_failed:
        raise InfrastructureError(f"{TRIES} workers failed: {last.said}", retryable=False)
    return workers


async def _worked(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    watch: Callable[[asyncio.subprocess.Process], Awaitable[None]],
) -> Worked:
    """Run one worker to its end, under watch."""
    began_at = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", worker.__name__, *arguments),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    watching = asyncio.ensure_future(watch(process))
    try:
        _, said = await process.communicate()
    finally:
        watching.cancel()
        if process.returncode is None:
            process.kill()
    lines = said.decode(errors="replace").strip().splitlines()
    exit_code = process.returncode or 0
    return Worked(began_at, time.monotonic(), exit_code, lines[-1] if lines and exit_code else "")
