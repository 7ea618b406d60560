"""Threads that write to SQLite at the same time share a transaction."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from agent.journal.database import Database, parse_address

WAIT_S = 20


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(parse_address(f"sqlite:///{tmp_path / 'numbers.sqlite'}"), patience_s=5.0)
    made.write(lambda connection: connection.execute(text("CREATE TABLE numbers (n PRIMARY KEY)")))
    yield made
    made.close()


@pytest.fixture
def commits(database: Database) -> list[None]:
    """One entry for each transaction that is committed from now on."""
    found: list[None] = []
    event.listen(database._engine, "commit", lambda connection: found.append(None))
    return found


def numbers(database: Database) -> list[int]:
    every = text("SELECT n FROM numbers ORDER BY 1")
    return database.read(lambda connection: list(connection.execute(every).scalars()))


def add(number: int) -> Callable[[Connection], int]:
    def work(connection: Connection) -> int:
        connection.execute(text("INSERT INTO numbers VALUES (:number)"), {"number": number})
        return number

    return work


@contextmanager
def together(
    database: Database, *works: Callable[[Connection], Any]
) -> Iterator[list[Future[Any]]]:
    """Let each work wait in a thread of its own until the end of the block."""
    group = database._shared
    assert group is not None
    with ThreadPoolExecutor(len(works)) as threads, group.turn:
        futures = [threads.submit(database.write, work) for work in works]
        deadline = time.monotonic() + WAIT_S
        while len(group._waiting) < len(works):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        yield futures


def test_waiting_threads_share_one_transaction(database: Database, commits: list[None]) -> None:
    """Each gets its own result."""
    with together(database, *map(add, range(8))) as futures:
        pass
    assert [future.result() for future in futures] == list(range(8))
    assert len(commits) == 1
    assert numbers(database) == list(range(8))


def test_an_error_of_one_undoes_that_one_alone(database: Database) -> None:
    """The error reaches the thread whose work raised it."""

    def refuse(connection: Connection) -> None:
        add(99)(connection)
        raise LookupError("over budget")

    with together(database, add(1), refuse, add(2)) as futures:
        pass
    with pytest.raises(LookupError, match="over budget"):
        futures[1].result()
    assert (futures[0].result(), futures[2].result()) == (1, 2)
    assert numbers(database) == [1, 2]


def test_an_interrupted_thread_leaves_the_work_of_others(database: Database) -> None:
    """A signal in the thread that writes for all ends that thread, and its own work is not done."""
    interrupted = threading.Event()

    def stop(connection: Connection) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    with together(database, add(1), stop, add(2)) as futures:
        pass
    written = [future.result() for future in futures if future.exception() is None]
    assert len(written) == 2
    assert numbers(database) == sorted(number for number in written if number)
