"""Transactions, and how the threads of a process share them on SQLite."""

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

T = TypeVar("T")
Work = Callable[[Connection], T]

DATABASE_ERRORS = (DBAPIError, sqlite3.Error, PoolTimeout)


def transaction(engine: Engine, work: Work[T]) -> T:
    """Return the result of `work` in a transaction of its own."""
    with engine.begin() as connection:
        return work(connection)


def driver(connection: Connection) -> Any:
    """Return the driver's own connection, which knows nothing of transactions of SQLAlchemy."""
    return connection.connection.dbapi_connection


class OpenConnection:
    """A connection to SQLite that stays open. To open one takes as long as a statement."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    def get(self) -> Connection:
        """Return the connection, opened on first use."""
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def close(self) -> None:
        """Close the connection. A later use opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Write(Generic[T]):
    """Work that waits for a transaction, and then its result or its error."""

    def __init__(self, work: Work[T]) -> None:
        self.done = False
        self._work = work
        self._result: list[T] = []
        self._error: Exception | None = None

    def run(self, connection: Connection) -> None:
        """Run in a savepoint, so that an error of the work itself undoes this work alone."""
        self._result, self._error = [], None
        own = driver(connection)  # through SQLAlchemy, the savepoint takes as long as the work
        own.execute("SAVEPOINT one")
        try:
            self._result.append(self._work(connection))
        except DATABASE_ERRORS:
            raise  # SQLite may have rolled back the whole transaction
        except Exception as error:
            own.execute("ROLLBACK TO one")
            self._error = error
        own.execute("RELEASE one")

    def run_alone(self, connect: Callable[[], Connection]) -> None:
        """Run in a transaction of its own."""
        self._result, self._error = [], None
        try:
            connection = connect()
            with connection.begin():
                self._result.append(self._work(connection))
        except Exception as error:
            self._error = error
        self.done = True

    def result(self) -> T:
        """Return the result of the work, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._result[0]


class GroupCommit:
    """Runs what several threads write to SQLite in one transaction, which reaches the disk once.

    A thread begins at once if no other one is writing. Otherwise it waits, and the first of the
    waiting threads writes for all of them.
    """

    def __init__(self, engine: Engine) -> None:
        self.writing = threading.Lock()
        """Held during each transaction."""
        self._connection = OpenConnection(engine)
        self._waiting: deque[_Write[Any]] = deque()

    def run(self, work: Work[T]) -> T:
        """Return the result of `work` when it is on the disk."""
        mine = _Write(work)
        self._waiting.append(mine)
        with self.writing:
            if not mine.done:
                self._write_waiting(mine)
        return mine.result()

    def close(self) -> None:
        """Close the connection. A later write opens another one."""
        with self.writing:
            self._connection.close()

    def _write_waiting(self, mine: _Write[Any]) -> None:
        writes = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            if len(writes) > 1 and self._write_together(writes):
                return
            for write in writes:
                write.run_alone(self._connection.get)
        except BaseException:  # a signal in the main thread: the others still wait
            self._connection.close()  # its transaction may have begun and not ended
            left = [write for write in writes if not write.done and write is not mine]
            self._waiting.extendleft(reversed(left))
            raise

    def _write_together(self, writes: Sequence[_Write[Any]]) -> bool:
        """Return False if the transaction failed and nothing is written."""
        try:
            connection = self._connection.get()
            with connection.begin():
                for write in writes:
                    write.run(connection)
        except DATABASE_ERRORS:
            return False
        for write in writes:
            write.done = True
        return True
