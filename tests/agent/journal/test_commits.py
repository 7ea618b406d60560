"""Threads that write to SQLite at the same time share a transaction."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import IntegrityError

from agent.journal.commits import GroupCommit

WAIT_S = 20


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'numbers.sqlite'}", max_overflow=-1)
    event.listen(engine, "connect", lambda raw, record: setattr(raw, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE numbers (number INTEGER PRIMARY KEY)"))
    yield engine
    engine.dispose()


@pytest.fixture
def commits(engine: Engine) -> list[None]:
    """One entry for each transaction that is committed from now on."""
    found: list[None] = []
    event.listen(engine, "commit", lambda connection: found.append(None))
    return found


def numbers(engine: Engine) -> list[int]:
    with engine.begin() as connection:
        return list(connection.execute(text("SELECT number FROM numbers ORDER BY 1")).scalars())


def add(number: int) -> Callable[[Connection], int]:
    def work(connection: Connection) -> int:
        connection.execute(text("INSERT INTO numbers VALUES (:number)"), {"number": number})
        return number

    return work


@contextmanager
def together(
    group: GroupCommit, *works: Callable[[Connection], Any]
) -> Iterator[list[Future[Any]]]:
    """Let each work wait in a thread of its own until the end of the block."""
    with ThreadPoolExecutor(len(works)) as threads, group.writing:
        futures = [threads.submit(group.run, work) for work in works]
        deadline = time.monotonic() + WAIT_S
        while len(group._waiting) < len(works):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        yield futures


def test_waiting_threads_share_one_transaction(engine: Engine, commits: list[None]) -> None:
    """Each gets its own result."""
    with together(GroupCommit(engine), *map(add, range(8))) as futures:
        pass
    assert [future.result() for future in futures] == list(range(8))
    assert len(commits) == 1
    assert numbers(engine) == list(range(8))


def test_an_error_of_one_undoes_that_one_alone(engine: Engine, commits: list[None]) -> None:
    """The error reaches the thread whose work raised it."""

    def refuse(connection: Connection) -> None:
        add(99)(connection)
        raise LookupError("over budget")

    with together(GroupCommit(engine), add(1), refuse, add(2)) as futures:
        pass
    with pytest.raises(LookupError, match="over budget"):
        futures[1].result()
    assert (futures[0].result(), futures[2].result()) == (1, 2)
    assert len(commits) == 1
    assert numbers(engine) == [1, 2]


def test_a_database_error_makes_each_run_alone(engine: Engine) -> None:
    """SQLite may roll back everything on such an error, so nothing of the first try counts."""
    with together(GroupCommit(engine), add(1), add(1), add(2)) as futures:
        pass
    errors = [future.exception() for future in futures]
    assert sorted(map(type, errors), key=str) == sorted(
        [type(None), type(None), IntegrityError], key=str
    )
    assert numbers(engine) == [1, 2]


def test_an_interrupted_thread_leaves_the_work_of_others(engine: Engine) -> None:
    """A signal in the thread that writes for all ends that thread, and its own work is not done."""
    interrupted = threading.Event()

    def stop(connection: Connection) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    with together(GroupCommit(engine), add(1), stop, add(2)) as futures:
        pass
    written = [future.result() for future in futures if future.exception() is None]
    assert len(written) == 2
    assert numbers(engine) == sorted(number for number in written if number)


def test_an_interruption_as_a_transaction_begins_leaves_none_open(engine: Engine) -> None:
    """All transactions share a connection, and the next one begins on it."""
    group = GroupCommit(engine)

    def stop(connection: Connection) -> None:
        raise KeyboardInterrupt

    group.run(add(1))
    event.listen(engine, "begin", stop)
    with pytest.raises(KeyboardInterrupt):
        group.run(add(2))
    event.remove(engine, "begin", stop)
    group.run(add(3))
    assert numbers(engine) == [1, 3]


def test_a_closed_group_opens_another_connection(engine: Engine) -> None:
    group = GroupCommit(engine)
    group.run(add(1))
    group.close()
    group.run(add(2))
    assert numbers(engine) == [1, 2]
