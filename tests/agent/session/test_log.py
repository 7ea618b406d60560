"""Threads in which a session writes to its journal."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from agent.journal import Journal
from agent.journal.database import Database
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest, Usage
from tests.agent.session.runs import ASK, Runs


@pytest.fixture
def on_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each transaction that a call writes: whether it is written on the loop's thread."""
    found: list[bool] = []
    own = threading.get_ident()

    def tell(self: Database, work: Any, *rest: Any) -> Any:
        def told(connection: Connection) -> Any:
            found.append(threading.get_ident() == own)
            return work(connection)

        return told

    for name in ("write", "write_at_once"):
        real = getattr(Database, name)
        monkeypatch.setattr(
            Database,
            name,
            lambda self, work, *rest, real=real: real(self, tell(self, work), *rest),
        )
    return found


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


async def test_a_lone_call_is_written_without_a_change_of_threads(
    runs: Runs, on_the_loop: list[bool]
) -> None:
    async with runs.session(Meeting(1)) as session:
        on_the_loop.clear()
        await session.call(ASK)
        assert on_the_loop == [True, True]


async def test_a_write_keeps_no_other_call_waiting(
    runs: Runs, on_the_loop: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first intent finds no other call in flight."""
    together = threading.Barrier(3, timeout=5)
    record = Journal.record

    def record_together(*args: Any, **kwargs: Any) -> None:
        together.wait()
        record(*args, **kwargs)

    monkeypatch.setattr(Journal, "record", record_together)
    async with runs.session(Meeting(3)) as session:
        on_the_loop.clear()
        await asyncio.gather(*(session.scope(f"s-{number}").call(ASK) for number in range(3)))
        assert on_the_loop == [True, *[False] * 5]


async def test_a_call_that_never_ended_counts_until_its_attempt_is_released(
    runs: Runs, on_the_loop: list[bool]
) -> None:
    """The other attempts of the process then write as before."""
    with pytest.raises(TimeoutError):
        async with runs.session(Meeting(2)) as session, asyncio.timeout(0.05):
            await session.call(ASK)
    async with runs.session(Meeting(1)) as session:
        on_the_loop.clear()
        await session.call(ASK)
        assert on_the_loop == [True, True]


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
