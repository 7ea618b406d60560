"""Progress of a run: lines and a bar on the terminal, an artifact in Prefect."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

from agent.errors import JournalError
from agent.journal import Journal
from flows.display.progress import TerminalProgress
from flows.display.terminal import say
from flows.server.artifacts import artifact_key
from flows.server.retry import patiently
from flows.storage import journals
from flows.storage.lake import Lake
from reports.format import plural

INTERVAL_S = 5.0
"""Minimum time between updates of the progress artifact.

It is for people, so more updates would only load the server.
"""

_MINUTE_S = 60.0

QUIET_S, LONGEST_QUIET_S = 60.0, 600.0
"""A run that prints nothing for so long says that it is alive, then twice as late each time."""


class RunProgress(TerminalProgress):
    """Counts the finished units of one run, also in Prefect."""

    def __init__(self, name: str, total: int, lake: Lake) -> None:
        super().__init__(name, total)
        self._name, self._lake = name, lake
        self._artifact: UUID | None = None
        self._updated_at = 0.0

    async def _advance(self, units: int, line: str) -> None:
        await super()._advance(units, line)
        is_finished = self._done >= self._total
        if not is_finished and time.monotonic() - self._updated_at < INTERVAL_S:
            return
        self._updated_at = time.monotonic()
        percent = 100 * self._done / self._total
        if self._artifact is None:
            key = artifact_key(
                "progress", self._name, await asyncio.to_thread(journals.lake_id, self._lake)
            )
            self._artifact = await patiently(
                acreate_progress_artifact, progress=percent, key=key, description=self._name
            )
        else:
            await patiently(aupdate_progress_artifact, self._artifact, progress=percent)

    @asynccontextmanager
    async def show_life(self, journal: Journal) -> AsyncIterator[None]:
        """Say within the block what cells do whose model is slow."""
        speaking = asyncio.create_task(self._speak(journal))
        try:
            yield
        finally:
            speaking.cancel()
            await asyncio.wait([speaking])

    async def _speak(self, journal: Journal) -> None:
        quiet_s, done = QUIET_S, self._done
        while True:
            await asyncio.sleep(quiet_s)
            is_quiet, done = self._done == done, self._done
            quiet_s = min(2 * quiet_s, LONGEST_QUIET_S) if is_quiet else QUIET_S
            if is_quiet:
                with suppress(JournalError):
                    line = await asyncio.to_thread(_describe_work, journal, self._name)
                    say(f"[{done}/{self._total}] {line}")


def _describe_work(journal: Journal, experiment: str) -> str:
    """Return how many cells are at work, and how long the oldest call in flight has run."""
    attempts = [each for each in journal.progress(experiment) if (each.lease_left_s or 0) > 0]
    calls = sum(attempt.calls for attempt in attempts)
    line = f"{plural(len(attempts), 'cell')} at work, {plural(calls, 'call')} answered"
    waits = [
        (attempt.now - attempt.open_call_at).total_seconds()
        for attempt in attempts
        if attempt.open_call_at is not None
    ]
    if waits:
        seconds = max(waits)
        time = f"{seconds:.0f} s" if seconds < _MINUTE_S else f"{seconds / _MINUTE_S:.0f} min"
        line += f"; the model has worked for {time} on a call"
    return line
