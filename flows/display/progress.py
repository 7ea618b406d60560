"""Progress of a run on the terminal: lines and a bar."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from flows.display.terminal import error_console, say


class TerminalProgress:
    """Counts the finished units of one run."""

    def __init__(self, name: str, total: int) -> None:
        self._total = max(total, 1)
        self._done = 0
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

    async def spare(self, units: int, why: str) -> None:
        """Record that units need not be done, and why."""
        await self._advance(units, f"not needed: {units:,}, because it is {why}")

    async def _advance(self, units: int, line: str) -> None:
        self._done += units
        self._bar.update(self._task, completed=self._done)
        width = len(str(self._total))
        say(f"[{self._done:>{width}}/{self._total}] {line}")
