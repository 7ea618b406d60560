"""SQLite or PostgreSQL: addresses, statements, and transactions that are retried."""

import functools
import math
import re
import sqlite3
import threading
import time
from collections import deque, namedtuple
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from agent.errors import JournalError
from agent.stores import create_private

T = TypeVar("T")
P = ParamSpec("P")

DATABASE_ERRORS = (DBAPIError, sqlite3.Error, PoolTimeout)

WRITES = "journal_writes"
"""Execution option of connections whose transactions write."""

SQLITE_BUSY_MS = 10_000
"""Time that SQLite itself waits for another program's lock."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0

SQLITE_PASSES = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")
POSTGRES_PASSES = ("08", "40", "53", "55P03", "57P", "25P03")
"""Prefixes of the error names and SQLSTATEs that can disappear on a retry."""


def execute(connection: Connection, statement: str, **values: Any) -> Any:
    """Execute a statement in the SQL of this package. Return a cursor whose rows have names.

    `clock()` is the database's time in seconds since 1970, the same for all of its workers.
    `json_each(:names)` has the items of a JSON array in its column `value`.
    """
    dialect = connection.dialect.name
    text = _translate(statement, dialect)
    if dialect == "sqlite":  # SQLAlchemy needs more time for a statement than SQLite does
        return connection.connection.cursor().execute(text, values)
    return connection.exec_driver_sql(text, values)


def execute_each(connection: Connection, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Execute a statement once for each row of values."""
    if rows:
        text = _translate(statement, connection.dialect.name)
        connection.exec_driver_sql(text, [dict(row) for row in rows])


@functools.cache
def _translate(statement: str, dialect: str) -> str:
    if dialect == "sqlite":  # a transaction that writes is alone, so it locks no rows
        return re.sub(r"\s+FOR UPDATE( OF \w+)?( SKIP LOCKED)?", "", statement)
    text = statement.replace("clock()", "EXTRACT(EPOCH FROM clock_timestamp())::float8")
    text = re.sub(r"json_each\((:\w+)\)", r"json_array_elements_text(CAST(\1 AS json))", text)
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", text)


class Database:
    """Runs transactions, and retries them while the database is unreachable, up to `patience_s`.

    All calls share one wait: a call that is made when an outage has lasted that long fails at once.
    With separate waits, an attempt that fails, cleans up and is retried would wait several times.
    Work can run more than once, the last time after a commit whose answer was lost. Running it
    again must leave the same result as running it once.
    """

    def __init__(self, url: URL, patience_s: float) -> None:
        """Connect with the first transaction.

        Raises:
            JournalError: a package is missing, or the folder of the file cannot be created.
        """
        self.url = url
        self.patience_s = patience_s
        self._engine = _create_engine(url)
        self._writer = self._engine.execution_options(**{WRITES: True})
        is_file = url.get_backend_name() == "sqlite"
        self._shared = _SharedWrites(self._writer) if is_file else None
        self._outage_began = self._outage_seen = -math.inf

    def read(
        self, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **values: P.kwargs
    ) -> T:
        """Return the result of `work` in a read-only transaction.

        Raises:
            JournalError: the database is unreachable or rejects the transaction.
        """

        def run() -> T:
            with self._engine.begin() as connection:
                return work(connection, *args, **values)

        return self._retry(run)

    def write(
        self, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **values: P.kwargs
    ) -> T:
        """Return the result of `work` in a transaction that is on the disk when this returns.

        Raises:
            JournalError: the database is unreachable or rejects the transaction.
        """

        def run() -> T:
            if self._shared is not None:
                return self._shared.run(lambda connection: work(connection, *args, **values))
            with self._writer.begin() as connection:
                return work(connection, *args, **values)

        return self._retry(run)

    def compact(self) -> int:
        """Return the unused space in SQLite's file to the disk. Return the number of bytes freed.

        PostgreSQL does so by itself, so the result is 0.

        Raises:
            JournalError: the file is unreachable, or the disk has no room for the new one.
        """
        if self._shared is None:
            return 0

        def vacuum() -> int:
            pooled = self._engine.raw_connection()  # a vacuum runs outside of any transaction
            try:
                connection = pooled.driver_connection
                assert connection is not None, "it was just taken out of the pool"

                def read_pragma(name: str) -> int:
                    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

                pages = read_pragma("page_count")
                if read_pragma("freelist_count"):
                    connection.execute("VACUUM")
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                return (pages - read_pragma("page_count")) * read_pragma("page_size")
            finally:
                pooled.close()

        with self._shared.turn:
            return self._retry(vacuum)

    def connect(self) -> Connection:
        """Return a connection for something else than a transaction."""
        return self._engine.connect()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _retry(self, run: Callable[[], T]) -> T:
        pause_s, has_failed = FIRST_PAUSE_S, False
        while True:
            try:
                result = run()
            except DATABASE_ERRORS as error:
                now, can_pass = time.monotonic(), _can_pass(error)
                if can_pass:
                    # Not since the call: its process may have been suspended for longer than that.
                    if now - self._outage_seen > self.patience_s:
                        self._outage_began = now
                    self._outage_seen = now
                if not can_pass or now + pause_s > self._outage_began + self.patience_s:
                    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
                    cause = lines[0] if lines else "no reason"
                    remedy = "; free some space and run again" if "is full" in cause else ""
                    raise JournalError(
                        f"the journal at {show_address(self.url)} fails: {cause}{remedy}",
                        retryable=can_pass,
                    ) from error
                has_failed = True
            else:
                # Success of another call does not end the outage: a full disk still allows reads,
                # and writes that add no data.
                if has_failed:
                    self._outage_seen = -math.inf
                return result
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class _SharedWrites:
    """Writes of several threads to SQLite, which has one writer: those that wait share a commit.

    Each transaction waits for the disk. If the work of one thread fails, all are done again, each
    in its own transaction.
    """

    def __init__(self, engine: Engine) -> None:
        self.turn = threading.Lock()
        """Held during each transaction."""
        self._engine = engine
        self._waiting: deque[tuple[Callable[[Connection], Any], Future[Any]]] = deque()

    def run(self, work: Callable[[Connection], T]) -> T:
        """Return the result of `work` when it is on the disk."""
        mine: Future[T] = Future()
        self._waiting.append((work, mine))
        with self.turn:
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
                    with self._engine.begin() as connection:
                        result = work(connection)
                    future.set_result(result)
                except Exception as error:
                    future.set_exception(error)
        finally:  # after a signal in the main thread, the others write by themselves
            rest = [write for write in writes if write[1] is not mine and not write[1].done()]
            self._waiting.extendleft(reversed(rest))

    def _write_together(
        self, writes: Sequence[tuple[Callable[[Connection], Any], Future[Any]]]
    ) -> bool:
        try:
            with self._engine.begin() as connection:
                results = [work(connection) for work, _ in writes]
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
        return self.database.read(functools.partial(method, self), *args, **values)

    return run


def writes(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method that takes a connection a transaction that writes."""

    @functools.wraps(method)
    def run(self: S, /, *args: P.args, **values: P.kwargs) -> T:
        return self.database.write(functools.partial(method, self), *args, **values)

    return run


def show_address(url: URL) -> str:
    """Return a database URL for display, without passwords and without the driver."""
    secrets = [name for name in url.query if "password" in name.lower()]
    public = url.difference_update_query(secrets).set(drivername=url.get_backend_name())
    return public.render_as_string(hide_password=True)


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
    """Return True if there can be a journal to connect to. This is decided without connecting."""
    return address.get_backend_name() != "sqlite" or Path(str(address.database)).is_file()


def is_missing(url: str) -> bool:
    """Return True if no journal can exist at a URL. This is decided without connecting.

    Raises:
        JournalError: the URL is invalid.
    """
    return not may_exist(parse_address(url))


def _can_pass(error: Exception) -> bool:
    """Return True if the same transaction can succeed later."""
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


def _create_engine(url: URL) -> Engine:
    try:
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
        defaults = {"connect_timeout": 10, "tcp_user_timeout": 30_000, "client_encoding": "utf8"}
        unset = {name: value for name, value in defaults.items() if name not in url.query}
        engine = create_engine(url, connect_args=unset)
        event.listen(engine, "connect", _prepare_postgresql)
        return engine
    except ImportError as error:
        message = f"{url.get_backend_name()} needs a package: {error}"
        raise JournalError(message, retryable=False) from error
    except OSError as error:
        raise JournalError(f"the journal cannot be created: {error}") from error


def _prepare_sqlite(connection: sqlite3.Connection, record: object) -> None:
    connection.isolation_level = None  # `_begin_sqlite` starts transactions
    connection.row_factory = _name_columns
    connection.create_function("clock", 0, time.time)
    connection.execute(f"PRAGMA busy_timeout = {SQLITE_BUSY_MS}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    # Resetting the log makes commits 1.5 times faster.
    connection.execute("PRAGMA wal_autocheckpoint = 200")


def _name_columns(cursor: sqlite3.Cursor, row: Sequence[Any]) -> Any:
    return _row_type(tuple(column[0] for column in cursor.description))._make(row)


@functools.cache
def _row_type(columns: tuple[str, ...]) -> Any:
    return namedtuple("Row", columns, rename=True)


def _begin_sqlite(connection: Connection) -> None:
    # A reader that turns writer half way can fail for good, so a writer is one from the start.
    is_writer = connection.get_execution_options().get(WRITES)
    connection.connection.cursor().execute("BEGIN IMMEDIATE" if is_writer else "BEGIN")


def _prepare_postgresql(connection: Any, record: object) -> None:
    # A worker that is stopped inside a transaction must not block all other workers.
    connection.execute("SET idle_in_transaction_session_timeout = '10s'")
    connection.execute("SET lock_timeout = '30s'")
    connection.execute("SET synchronous_commit = on")
    connection.commit()
