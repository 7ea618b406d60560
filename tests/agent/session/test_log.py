"""A session writes to its journal in threads."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.models.protocol import ModelInfo, ModelReply, ModelRequest, Usage
from tests.agent.session.runs import ASK, Runs


class Meeting:
    """A model whose answers wait until all of a number of calls are in flight."""

    info = ModelInfo("meeting", "scripted")

    def __init__(self, calls: int) -> None:
        self._all = asyncio.Barrier(calls)

    def ceiling_usd(self, request: ModelRequest) -> float:
        return 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        await self._all.wait()
        return ModelReply({"role": "assistant"}, Usage(cost_usd=0.0), "declared", "meeting")


async def test_the_loop_goes_on_while_another_process_writes(runs: Runs, tmp_path: Path) -> None:
    async with runs.session(Meeting(1)) as session:
        with written_by_another(tmp_path / "journal.sqlite"):
            call = asyncio.create_task(session.call(ASK))
            for _ in range(5):  # a blocked loop would wait for a lock that this thread holds
                await asyncio.sleep(0.01)
            assert not call.done()
        await call
    assert [step.result is None for step in runs.journal.steps("a")] == [False]


@contextmanager
def written_by_another(file: Path) -> Iterator[None]:
    """Hold the lock of SQLite's writer over a connection of its own."""
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()
