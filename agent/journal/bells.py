"""Bells: a message wakes the coroutine that waits for it, also from another process on PostgreSQL.

A ring can be lost, as when the database restarts. So each wait is short, and looks at the journal.
"""

import asyncio
import threading
import time
from collections import defaultdict
from contextlib import suppress
from typing import Any, Self

from sqlalchemy import Connection

from agent.journal.database import DATABASE_ERRORS, LONGEST_PAUSE_S, Database, execute

_CHANNEL = "durabench_inbox"

_UNTIL_UNWANTED_S = 1.0
"""Time after which a listener without notifications checks whether it is needed."""

_BELLS: dict[str, set["Bell"]] = defaultdict(set)
"""By attempt."""

_LISTENERS: dict[Database, threading.Thread] = {}


class Bell:
    """Wakes a coroutine. Use it as a block, in which no ring of this process is lost.

    With a database, processes that send messages to it ring as well, if it is PostgreSQL.
    """

    def __init__(self, attempt_id: str, database: Database | None = None) -> None:
        self._attempt_id = attempt_id
        self.database = database
        """The database whose notifications ring this bell, if it is PostgreSQL."""
        self._rang = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> Self:
        _BELLS[self._attempt_id].add(self)
        return self

    def __exit__(self, *error: object) -> None:
        _BELLS[self._attempt_id].discard(self)

    async def wait(self, most_s: float) -> None:
        """Wait for the next ring since the last wait, for `most_s` seconds at most."""
        if self.database is not None and self.database.url.get_backend_name() == "postgresql":
            _listen(self.database)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rang.wait(), most_s)
        self._rang.clear()

    def ring(self) -> None:
        """Wake the coroutine, from any thread."""
        with suppress(RuntimeError):  # its event loop has ended
            self._loop.call_soon_threadsafe(self._rang.set)


def ring(attempt_id: str) -> None:
    """Ring the bells of an attempt in this process."""
    for bell in [*_BELLS.get(attempt_id, ())]:
        bell.ring()


def ring_elsewhere(connection: Connection, attempt_id: str) -> None:
    """Ring the bells of an attempt in all processes once this transaction is committed."""
    if connection.dialect.name == "postgresql":
        execute(connection, f"SELECT pg_notify('{_CHANNEL}', :attempt_id)", attempt_id=attempt_id)


def _listen(database: Database) -> None:
    """Let a thread pass on the notifications of a database. All bells of a process share it."""
    listener = _LISTENERS.get(database)
    if listener is None or not listener.is_alive():
        listener = threading.Thread(target=_pass_on, args=(database,), daemon=True)
        _LISTENERS[database] = listener
        listener.start()


def _pass_on(database: Database) -> None:
    while _is_wanted(database):
        try:
            _receive(database)
        except DATABASE_ERRORS:
            time.sleep(LONGEST_PAUSE_S)
    _LISTENERS.pop(database, None)


def _receive(database: Database) -> None:
    with database.connect() as pooled:
        connection = pooled.execution_options(isolation_level="AUTOCOMMIT")
        connection.exec_driver_sql(f"LISTEN {_CHANNEL}")
        driver: Any = connection.connection.driver_connection
        while _is_wanted(database):
            for notification in driver.notifies(timeout=_UNTIL_UNWANTED_S, stop_after=1):
                ring(notification.payload)
        connection.exec_driver_sql(f"UNLISTEN {_CHANNEL}")


def _is_wanted(database: Database) -> bool:
    return any(bell.database is database for bells in [*_BELLS.values()] for bell in [*bells])
