"""A bell that rings in this process when an attempt gets a message or waits for one."""

import asyncio
from collections import defaultdict
from contextlib import suppress
from typing import Self

_BELLS: dict[str, set["Bell"]] = defaultdict(set)
"""By attempt. Other processes look at the journal from time to time instead."""


class Bell:
    """Wakes a coroutine. Use it as a block, in which no ring is lost."""

    def __init__(self, attempt_id: str) -> None:
        self._attempt_id = attempt_id
        self._rang = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> Self:
        _BELLS[self._attempt_id].add(self)
        return self

    def __exit__(self, *error: object) -> None:
        _BELLS[self._attempt_id].discard(self)

    async def wait(self, most_s: float) -> None:
        """Wait for the next ring since the last wait, for `most_s` seconds at most."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rang.wait(), most_s)
        self._rang.clear()

    def ring(self) -> None:
        """Wake the coroutine, from any thread."""
        with suppress(RuntimeError):  # its event loop has ended
            self._loop.call_soon_threadsafe(self._rang.set)


def ring(attempt_id: str) -> None:
    """Ring the bells of an attempt."""
    for bell in [*_BELLS.get(attempt_id, ())]:
        bell.ring()
