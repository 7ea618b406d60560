"""SQLite or PostgreSQL: addresses, transactions that are retried, and compiled statements."""

import functools
import math
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import (
    URL,
    Connection,
    Double,
    Engine,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from agent.errors import JournalError
from agent.stores import create_private

T = TypeVar("T")
P = ParamSpec("P")
Work = Callable[[Connection], T]

DATABASE_ERRORS = (DBAPIError, sqlite3.Error, PoolTimeout)

WRITES = "journal_writes"
"""Execution option of connections whose transactions write."""

SQLITE_BUSY_MS = 10_000
"""Time that SQLite itself waits for another program's lock."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0

SQLITE_PASSES = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")
POSTGRES_PASSES = ("08", "40", "53", "55P03", "57P", "25P03")
"""Prefixes of the error names and SQLSTATEs that may disappear on a retry."""


class clock(FunctionElement[float]):  # noqa: N801  # reads as the SQL function it is
    """Seconds since 1970 by the database's clock, which is the same for all of its workers."""

    type = Double()
    inherit_cache = True


@compiles(clock, "sqlite")
def _clock_sqlite(element: clock, compiler: Any, **options: Any) -> str:
    return "journal_clock()"


@compiles(clock, "postgresql")
def _clock_postgresql(element: clock, compiler: Any, **options: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"


class _Outage:
    """Start of the current outage, shared by all threads.

    With separate waits, an attempt that fails, cleans up and is retried would wait several times.
    Success of another call does not end the outage: a full disk still allows reads, and writes that
    add no data.
    """

    def __init__(self) -> None:
        self._began = self._last = -math.inf

    def began(self, now: float, patience_s: float) -> float:
        """Return when the current outage was first seen."""
        if now - self._last > patience_s:
            self._began = now
        self._last = now
        return self._began

    def over(self) -> None:
        """Record that a call which failed before has succeeded."""
        self._last = -math.inf


class Database:
    """Runs transactions, and retries them while the database is unreachable, up to `patience_s`.

    All calls share one wait: a call that is made when an outage has lasted that long fails at once.
    Work may run more than once, the last time after a commit whose answer was lost. Running it
    again must leave the same result as running it once.
    """

    def __init__(self, url: URL, patience_s: float) -> None:
        self.url = url
        self.patience_s = patience_s
        self._outage = _Outage()
        self._engine = _engine(url)
        self._writer = self._engine.execution_options(**{WRITES: True})
        self._is_file = url.get_backend_name() == "sqlite"
        self._writes = _SharedWrites(self._writer)

    def read(self, work: Work[T]) -> T:
        """Return the result of `work` in a read-only transaction.

        Raises:
            JournalError: the database is unreachable or rejects the transaction.
        """
        return self._patiently(lambda: transaction(self._engine, work), self.patience_s)

    def write(self, work: Work[T], patience_s: float | None = None) -> T:
        """Return the result of `work` in a transaction that is on the disk when this returns.

        Raises:
            JournalError: the database is unreachable or rejects the transaction.
        """

        def run() -> T:
            return self._writes.run(work) if self._is_file else transaction(self._writer, work)

        return self._patiently(run, self.patience_s if patience_s is None else patience_s)

    def compact(self) -> int:
        """Return the unused space in SQLite's file to the disk. Return the number of bytes freed.

        PostgreSQL does so by itself, so the result is 0.

        Raises:
            JournalError: the file is unreachable, or the disk has no room for the new one.
        """
        if not self._is_file:
            return 0
        with self._writes.writing:
            return self._patiently(lambda: _vacuum(self._engine), self.patience_s)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _patiently(self, run: Callable[[], T], patience_s: float) -> T:
        pause, waited = FIRST_PAUSE_S, False
        while True:
            try:
                result = run()
            except DATABASE_ERRORS as error:
                now = time.monotonic()
                if not _passes(error):
                    raise self._failure(error, retryable=False) from error
                # Not since the call: its process may have been suspended for longer than that.
                since = self._outage.began(now, patience_s)
                if now + pause > since + patience_s:
                    raise self._failure(error, retryable=True) from error
            else:
                if waited:
                    self._outage.over()
                return result
            time.sleep(pause)
            pause, waited = min(2 * pause, LONGEST_PAUSE_S), True

    def _failure(self, error: Exception, *, retryable: bool) -> JournalError:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines() or ["no reason"]
        where = show_address(self.url)
        remedy = "; free some space and run again" if "is full" in cause[0] else ""
        message = f"the journal at {where} fails: {cause[0]}{remedy}"
        return JournalError(message, retryable=retryable)


def driver(connection: Connection) -> Any:
    """Return the driver's own connection."""
    return connection.connection.dbapi_connection


def transaction(engine: Engine, work: Work[T]) -> T:
    """Return the result of `work` in a transaction of its own."""
    with engine.begin() as connection:
        return work(connection)


class _SharedWrites:
    """Writes of several threads to SQLite, which has one writer: those that wait share a commit.

    Each transaction waits for the disk. If the work of one thread fails, all are done again, each
    in a transaction of its own.
    """

    def __init__(self, engine: Engine) -> None:
        self.writing = threading.Lock()
        """Held during each transaction."""
        self._engine = engine
        self._waiting: deque[tuple[Work[Any], Future[Any]]] = deque()

    def run(self, work: Work[T]) -> T:
        """Return the result of `work` when it is on the disk."""
        mine: Future[T] = Future()
        self._waiting.append((work, mine))
        with self.writing:
            if not mine.done():
                self._write_waiting(mine)
        return mine.result()

    def _write_waiting(self, mine: Future[Any]) -> None:
        writes = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            if len(writes) > 1 and self._write_together(writes):
                return
            for work, future in writes:
                try:
                    future.set_result(transaction(self._engine, work))
                except Exception as error:
                    future.set_exception(error)
        finally:  # after a signal in the main thread, the others write by themselves
            left = [each for each in writes if each[1] is not mine and not each[1].done()]
            self._waiting.extendleft(reversed(left))

    def _write_together(self, writes: Sequence[tuple[Work[Any], Future[Any]]]) -> bool:
        try:
            results = transaction(self._engine, lambda all_: [work(all_) for work, _ in writes])
        except Exception:
            return False
        for (_, future), result in zip(writes, results, strict=True):
            future.set_result(result)
        return True


class OnDatabase(Protocol):
    """Something whose methods are transactions."""

    @property
    def database(self) -> Database: ...


S = TypeVar("S", bound=OnDatabase)


def reads(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method that takes a connection a read-only transaction."""

    @functools.wraps(method)
    def run(self: S, /, *args: P.args, **values: P.kwargs) -> T:
        return self.database.read(lambda connection: method(self, connection, *args, **values))

    return run


def writes(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method that takes a connection a transaction that writes."""

    @functools.wraps(method)
    def run(self: S, /, *args: P.args, **values: P.kwargs) -> T:
        return self.database.write(lambda connection: method(self, connection, *args, **values))

    return run


def show_address(url: URL) -> str:
    """Return a database URL for display, without passwords and without the driver."""
    secrets = [name for name in url.query if "password" in name.lower()]
    open_to_all = url.difference_update_query(secrets).set(drivername=url.get_backend_name())
    return open_to_all.render_as_string(hide_password=True)


def parse_address(url: str) -> URL:
    """Parse a database URL and set this package's driver, whichever driver the URL names.

    Raises:
        JournalError: the URL is invalid, or its database is neither SQLite nor PostgreSQL.
    """
    try:
        address = make_url(url)
    except ArgumentError as error:
        raise JournalError("the journal's URL is not one", retryable=False) from error
    backend = address.get_backend_name()
    if backend == "postgresql":
        return address.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise JournalError(
            f"the journal must be SQLite or PostgreSQL, not {backend}", retryable=False
        )
    if not address.database or address.database == ":memory:":
        raise JournalError("a journal in memory keeps nothing: name a file", retryable=False)
    return address.set(drivername="sqlite")


def show_url(url: str) -> str:
    """Return the location of a journal without secrets, in the form of the environment variable.

    Raises:
        JournalError: the URL is invalid.
    """
    return show_address(parse_address(url))


def may_exist(address: URL) -> bool:
    """Return True if there may be a journal to connect to. This is decided without connecting."""
    return address.get_backend_name() != "sqlite" or Path(str(address.database)).is_file()


def is_missing(url: str) -> bool:
    """Return True if no journal can exist at a URL. This is decided without connecting.

    Raises:
        JournalError: the URL is invalid.
    """
    return not may_exist(parse_address(url))


def _passes(error: Exception) -> bool:
    """Return True if the same transaction may succeed later."""
    if isinstance(error, PoolTimeout):
        return True
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, sqlite3.Error):
        return (getattr(cause, "sqlite_errorname", None) or "").startswith(SQLITE_PASSES)
    state = getattr(cause, "sqlstate", None)
    if state is None:
        # The error is the driver's own: no server responded with a state.
        return type(cause).__name__ == "OperationalError"
    return str(state).startswith(POSTGRES_PASSES)


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        file = Path(str(url.database)).absolute()
        file.parent.mkdir(parents=True, exist_ok=True)
        create_private(file)  # SQLite gives its log the same mode
        # Writers take turns, so each gets the connection of the one before it, with its pages.
        engine = create_engine(url, max_overflow=-1, pool_use_lifo=True)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    # The encoding is for clusters that were created without one, as in a locale of C.
    wanted = {"connect_timeout": 10, "tcp_user_timeout": 30_000, "client_encoding": "utf8"}
    unset = {name: value for name, value in wanted.items() if name not in url.query}
    engine = create_engine(url, connect_args=unset)
    event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, record: object) -> None:
    connection.isolation_level = None  # transactions begin in `_begin_sqlite`
    connection.create_function("journal_clock", 0, time.time)
    connection.execute(f"PRAGMA busy_timeout = {SQLITE_BUSY_MS}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    # A log that is begun again reaches the disk in two thirds of the time of one that grows.
    connection.execute("PRAGMA wal_autocheckpoint = 200")


def _vacuum(engine: Engine) -> int:
    """Rewrite SQLite's file, outside of any transaction. Return by how many bytes it shrank."""
    pooled = engine.raw_connection()
    try:
        connection = pooled.driver_connection
        assert connection is not None, "it was just taken out of the pool"

        def tell(what: str) -> int:
            return int(connection.execute(f"PRAGMA {what}").fetchone()[0])

        before = tell("page_count")
        if tell("freelist_count"):
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return (before - tell("page_count")) * tell("page_size")
    finally:
        pooled.close()


def _begin_sqlite(connection: Connection) -> None:
    # A reader that turns writer half way can fail for good, so a writer is one from the start.
    is_writer = connection.get_execution_options().get(WRITES)
    driver(connection).execute("BEGIN IMMEDIATE" if is_writer else "BEGIN")


def _prepare_postgresql(connection: Any, record: object) -> None:
    # A worker that is stopped inside a transaction must not block all the others.
    connection.execute("SET idle_in_transaction_session_timeout = '10s'")
    connection.execute("SET lock_timeout = '30s'")
    connection.execute("SET synchronous_commit = on")
    connection.commit()
