"""A queue of work that many workers take from, each piece of work by one of them at a time.

A worker takes work in the name of a lease that it holds, and keeps it while it renews the lease.
Work of a dead worker is free again when its lease has expired.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from agent.journal.database import Database, execute, execute_each, reads, writes

KEPT_S = 7 * 24 * 3600.0
"""Retention time of a queue: longer than any run."""

LATE_S = 60.0
"""`list_ended` finds an end that was committed at most this long after its time."""

_IS_OPEN = "run = :run AND ended_as IS NULL"


@dataclass(frozen=True)
class Taken:
    """A piece of work that a worker has taken."""

    name: str
    losses: int = 0
    """Number of earlier holders that died."""


@dataclass(frozen=True)
class Ended:
    """A piece of work that has ended."""

    name: str
    ended_as: str
    result: str
    at: float
    """Seconds since 1970, by the journal's clock."""


class Queue:
    """The work of one run. Every method is one transaction.

    `holder` is the name of a lease. Work is held while that lease has not expired.
    """

    def __init__(self, database: Database, run: str) -> None:
        self.run = run
        self.database = database

    @writes
    def add(self, connection: Connection, names: Sequence[str]) -> None:
        """Add work in this order, except what the queue has. Remove queues that are too old."""
        execute(connection, "DELETE FROM queue WHERE added_at < clock() - :kept_s", kept_s=KEPT_S)
        execute_each(
            connection,
            """
            INSERT INTO queue (run, name, position, holder, added_at)
            VALUES (:run, :name, :position, '', clock())
            ON CONFLICT DO NOTHING
            """,
            [{"run": self.run, "name": name, "position": at} for at, name in enumerate(names)],
        )

    @reads
    def open(self, connection: Connection) -> dict[str, int]:
        """Return the positions of the work that has not ended, by name and in order."""
        rows = self._execute(
            connection, f"SELECT name, position FROM queue WHERE {_IS_OPEN} ORDER BY position"
        )
        return {row.name: row.position for row in rows}

    @reads
    def count_unended(self, connection: Connection) -> int:
        """Return the number of pieces of work that have not ended."""
        return int(
            self._execute(connection, f"SELECT COUNT(*) FROM queue WHERE {_IS_OPEN}").fetchone()[0]
        )

    @reads
    def claimable(self, connection: Connection, soon_s: float) -> int:
        """Return the number of pieces that no worker holds for longer than `soon_s`."""
        statement = f"""
            SELECT COUNT(*) FROM queue
            WHERE {_IS_OPEN} AND NOT EXISTS (
                SELECT 1 FROM leases
                WHERE attempt_id = queue.holder AND expires_at > clock() + :soon_s
            )
        """
        return int(self._execute(connection, statement, soon_s=float(soon_s)).fetchone()[0])

    @writes
    def take(
        self, connection: Connection, holder: str, start: int = 0, *, fresh: bool = False
    ) -> Taken | None:
        """Take the next work from position `start` on, and then from the beginning.

        With `fresh`, leave work whose holder died to others. Return None if there is none to take.
        """
        # The lease of `holder` itself may have lapsed while it was suspended.
        statement = f"""
            SELECT name, losses, holder FROM queue
            WHERE {_IS_OPEN} AND holder <> :holder AND position >= :start
                {"AND holder = '' AND losses = 0" if fresh else ""}
                AND NOT EXISTS (
                    SELECT 1 FROM leases
                    WHERE attempt_id = queue.holder AND expires_at > clock()
                )
            ORDER BY position LIMIT 1
            FOR UPDATE SKIP LOCKED
        """
        for first in {start: None, 0: None}:
            row = self._execute(connection, statement, start=first, holder=holder).fetchone()
            if row is not None:
                work = Taken(row.name, row.losses + (row.holder != ""))
                statement = """
                    UPDATE queue SET holder = :holder, losses = :losses
                    WHERE run = :run AND name = :name
                """
                self._execute(connection, statement, holder=holder, **vars(work))
                return work
        return None

    @writes
    def give_back(self, connection: Connection, name: str, holder: str) -> None:
        """Free held work that has not ended."""
        self._execute(
            connection,
            f"UPDATE queue SET holder = '' WHERE {_IS_OPEN} AND holder = :holder AND name = :name",
            name=name,
            holder=holder,
        )

    @writes
    def give_back_all(self, connection: Connection, holder: str) -> None:
        """Free all work of a holder that has not ended."""
        statement = f"UPDATE queue SET holder = '' WHERE {_IS_OPEN} AND holder = :holder"
        self._execute(connection, statement, holder=holder)

    @writes
    def end(
        self,
        connection: Connection,
        name: str,
        holder: str,
        ended_as: str,
        result: str,
        *,
        is_final: bool = False,
    ) -> None:
        """End work. If another worker has taken it, do nothing unless the result is final.

        A worker that lost its lease on a slow machine may still have done the work.
        """
        statement = f"""
            UPDATE queue SET ended_as = :ended_as, result = :result, ended_at = clock()
            WHERE {_IS_OPEN} AND name = :name {"" if is_final else "AND holder = :holder"}
        """
        values = {"name": name, "holder": holder, "ended_as": ended_as, "result": result}
        self._execute(connection, statement, **values)

    @writes
    def withdraw(
        self, connection: Connection, groups: Sequence[Sequence[str]], ended_as: str
    ) -> list[str]:
        """End the work of groups without any taken piece. Return the names of this work.

        Work that was given back counts as not taken.
        """
        statement = f"""
            SELECT name FROM queue WHERE {_IS_OPEN} AND holder = '' FOR UPDATE SKIP LOCKED
        """
        free = {row.name for row in self._execute(connection, statement)}
        names = [name for group in groups if free.issuperset(group) for name in group]
        execute_each(
            connection,
            """
            UPDATE queue SET ended_as = :ended_as, result = '', ended_at = clock()
            WHERE run = :run AND name = :name AND holder = ''
            """,
            [{"run": self.run, "name": name, "ended_as": ended_as} for name in names],
        )
        return names

    @reads
    def holders(self, connection: Connection) -> dict[str, str]:
        """Return the worker of each lease that holds work, by the name of the lease."""
        statement = f"""
            SELECT DISTINCT leases.attempt_id, leases.worker
            FROM leases JOIN queue ON queue.holder = leases.attempt_id
            WHERE {_IS_OPEN} AND leases.expires_at > clock()
        """
        rows = self._execute(connection, statement)
        return {row.attempt_id: row.worker for row in rows}

    @reads
    def retries(self, connection: Connection) -> dict[str, str]:
        """Return the failed requests of attempts that wait to send them again, by attempt."""
        statement = f"""
            SELECT name, retry FROM queue JOIN leases ON attempt_id = name
            WHERE {_IS_OPEN} AND retry_at IS NOT NULL AND expires_at > clock()
        """
        return {row.name: row.retry for row in self._execute(connection, statement)}

    @reads
    def list_ended(self, connection: Connection, since: float = 0.0) -> list[Ended]:
        """Return the work that ended later than `LATE_S` before `since`, in seconds since 1970."""
        statement = """
            SELECT name, ended_as, result, ended_at FROM queue
            WHERE run = :run AND ended_at > :since
        """
        rows = self._execute(connection, statement, since=max(0.0, since - LATE_S))
        return [Ended(*row) for row in rows]

    def _execute(self, connection: Connection, statement: str, **values: Any) -> Any:
        return execute(connection, statement, run=self.run, **values)
