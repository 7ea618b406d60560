"""Progress of a run: lines and a bar on the terminal, an artifact in Prefect."""

import asyncio
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from uuid import UUID

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from agent.timings import timings
from flows.display.terminal import error_console, say
from flows.server.api import has_server
from flows.storage import bindings
from flows.storage.lake import Lake


class RunProgress:
    """Counts the finished units of one run."""

    def __init__(self, name: str, total: int, lake: Lake) -> None:
        self._name, self._lake = name, lake
        self._total = max(total, 1)
        self._done = 0
        self._artifact: UUID | None = None
        self._updated_at = 0.0
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Bar(*columns, TimeElapsedColumn(), console=error_console, transient=True)
        self._task = self._bar.add_task(name, total=total)

    def __enter__(self) -> Self:
        if error_console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    async def advance(self, label: str, result: str) -> None:
        """Record that one more unit has finished."""
        await self._advance(1, f"{label}: {result}")

    async def skip(self, results: Mapping[str, int]) -> None:
        """Record that an earlier run has finished units, by their results."""
        several = ", ".join(f"{number:,} {result}" for result, number in sorted(results.items()))
        await self._advance(sum(results.values()), f"done by an earlier run: {several}")

    async def _advance(self, units: int, line: str) -> None:
        self._done += units
        self._bar.update(self._task, completed=self._done)
        width = len(str(self._total))
        say(f"[{self._done:>{width}}/{self._total}] {line}")
        await self._publish()

    async def _publish(self) -> None:
        if not has_server():
            return
        from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

        from flows.server.artifacts import artifact_key
        from flows.server.retry import patiently

        finished = self._done >= self._total
        interval_s = timings().artifact_interval_s
        if not finished and time.monotonic() - self._updated_at < interval_s:
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
