"""Progress of a run: lines and a bar on the terminal, an artifact in Prefect."""

import asyncio
import time
from uuid import UUID

from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

from flows.display.progress import TerminalProgress
from flows.server.artifacts import artifact_key
from flows.server.retry import patiently
from flows.storage import bindings
from flows.storage.lake import Lake

INTERVAL_S = 5.0
"""Minimum time between updates of the progress artifact.

It is for people, so more updates would only load the server.
"""


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
                "progress", self._name, await asyncio.to_thread(bindings.lake_id, self._lake)
            )
            self._artifact = await patiently(
                acreate_progress_artifact, progress=percent, key=key, description=self._name
            )
        else:
            await patiently(aupdate_progress_artifact, self._artifact, progress=percent)
