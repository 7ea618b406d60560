"""Steps that are over and are written with the next intent of their attempt.

Then a command, or the reading of a message, and the model call after it need one transaction
instead of two, and all the steps in a row that another attempt answers need one. Until a step is
written, nothing outside this process depends on its result: no call that contains it is sent, no
person is asked, and no step that has effects begins. A crash therefore repeats the step as if it
had never ended. Steps with effects do not wait for a reused one, whose result every run repeats.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from agent.errors import InfrastructureError
from agent.journal import EndedStep, FreeStep

HOLD_S = 0.1
"""Steps are written after this time even without an intent. An arm needs less for its next call."""


class Unwritten:
    """Steps of one attempt that are not in the journal yet, in the order of their ends."""

    def __init__(self, write: Callable[[Sequence[EndedStep]], None]) -> None:
        """`write` blocks until it has recorded the steps. It may be given a step again."""
        self._write = write
        self._steps: list[EndedStep] = []
        self._writing = asyncio.Lock()
        self._later: asyncio.Task[None] | None = None

    @property
    def kinds(self) -> set[str]:
        """The kinds of the waiting steps that were run, and not reused."""
        return {step.kind for step in self._steps if isinstance(step, FreeStep)}

    def add(self, step: EndedStep) -> None:
        """Let a step wait for the next write."""
        self._steps.append(step)
        if self._later is None or self._later.done():
            self._later = asyncio.create_task(self._write_later())

    @asynccontextmanager
    async def handed_over(self) -> AsyncIterator[Sequence[EndedStep]]:
        """Yield the steps to a block that writes them. They wait on if the block fails.

        One block at a time: no other write may overtake the steps that it depends on.
        """
        async with self._writing:
            steps = tuple(self._steps)
            yield steps
            del self._steps[: len(steps)]

    async def write(self) -> None:
        """Write the steps now.

        Raises:
            FencedError: another worker has acquired the attempt.
            JournalError: the journal is unreachable or refuses a step.
        """
        if not self._steps:
            return
        async with self.handed_over() as steps:
            if steps:
                await asyncio.to_thread(self._write, steps)

    async def _write_later(self) -> None:
        await asyncio.sleep(HOLD_S)
        with suppress(InfrastructureError):  # the next write meets the same error
            await self.write()
