"""Sizes of attempts in the journal, and pruning."""

from collections.abc import Callable, Collection

from sqlalchemy import Connection

from agent.errors import JournalError
from agent.journal import ledger
from agent.journal.attempts import FIELDS, find
from agent.journal.blobs import BLOB
from agent.journal.database import Database, execute, reads, writes
from agent.journal.leases import acquire, release
from agent.journal.types import Attempt, Holding, References, TreeRef

WORKER = "retention"
"""The worker that acquires an attempt to remove its data. The previous holder is fenced by it."""

UNRETURNED_S = 24 * 3600.0
"""A worker that never released its lease counts as writing for this long: it may only be slow."""


class Retention:
    """The part of a journal that removes data.

    As in the journal, every method is one transaction that raises JournalError when the database
    stays unreachable. No step or bill of an attempt is removed while the attempt is leased.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @reads
    def holdings(self, connection: Connection) -> list[Holding]:
        """Return the data that is kept of each attempt, by its id."""
        statement = f"""
            SELECT {FIELDS},
                outcome IS NOT NULL AS has_ended,
                pruned_at IS NOT NULL AS is_pruned,
                expires_at > clock() AS is_held,
                COUNT(result) AS steps,
                COALESCE(SUM(LENGTH(request) + COALESCE(LENGTH(result), 0)), 0) AS size_bytes,
                clock() - MAX(started_at + COALESCE(duration_s, 0)) AS idle_s
            FROM attempts
                JOIN leases ON leases.attempt_id = attempts.attempt_id
                LEFT JOIN steps ON steps.attempt_id = attempts.attempt_id
            GROUP BY attempts.attempt_id, leases.attempt_id
            ORDER BY attempts.attempt_id
        """
        rows = execute(connection, statement)
        return [
            Holding(
                attempt=Attempt(*row[:-6]),
                has_ended=bool(row.has_ended),
                is_pruned=bool(row.is_pruned),
                is_held=bool(row.is_held),
                steps=row.steps,
                size_bytes=int(row.size_bytes),
                idle_s=row.idle_s,
            )
            for row in rows
        ]

    @writes
    def prune(self, connection: Connection, attempt_id: str) -> None:
        """Remove the steps of an attempt that has ended. Its outcome and its bill are kept.

        Raises:
            LeaseHeld: a worker holds the attempt.
            JournalError: the attempt has not ended or does not exist.
        """
        release(connection, acquire(connection, attempt_id, WORKER, 0.0))
        statement = """
            UPDATE attempts SET pruned_at = clock()
            WHERE attempt_id = :attempt_id AND outcome IS NOT NULL
        """
        cursor = execute(connection, statement, attempt_id=attempt_id)
        if cursor.rowcount == 0:
            raise JournalError(f"attempt {attempt_id} has not ended", retryable=False)
        _delete(connection, attempt_id, "steps", "inbox", "waits")

    @writes
    def remove(self, connection: Connection, attempt_id: str) -> None:
        """Remove an attempt with its outcome and its bill, as if it had never been started.

        The row of its lease stays. If the attempt is started again, its epochs continue from
        there, so that no earlier holder can write to it.

        Raises:
            LeaseHeld: a worker holds the attempt.
            JournalError: the attempt does not exist.
        """
        release(connection, acquire(connection, attempt_id, WORKER, 0.0))
        attempt = find(connection, attempt_id)
        if attempt is None:
            return
        ledger.forget(connection, attempt)
        _delete(connection, attempt_id, "steps", "inbox", "waits", "tenures", "attempts")
        statement = """
            DELETE FROM claims WHERE experiment = :experiment
                AND NOT EXISTS (SELECT 1 FROM attempts WHERE experiment = :experiment)
        """
        execute(connection, statement, experiment=attempt.experiment)

    @reads
    def references(self, connection: Connection, without: Collection[str] = ()) -> References:
        """Return all references to content-addressed storage, but not of the attempts `without`."""
        # Counted first, so that an attempt acquired in the meantime is noticed before any removal.
        turns = _count_turns(connection)
        names = set()
        for column in ("request", "result"):
            statement = f"""
                SELECT attempt_id, SUBSTR({column}, 2) AS digest FROM steps
                WHERE SUBSTR({column}, 1, 1) = :blob
            """
            rows = execute(connection, statement, blob=bytes([BLOB]))
            names |= {
                bytes(row.digest).decode("ascii") for row in rows if row.attempt_id not in without
            }
        rows = execute(connection, "SELECT attempt_id, tree FROM steps WHERE tree IS NOT NULL")
        names |= {TreeRef.parse(row.tree).delta for row in rows if row.attempt_id not in without}
        return References(frozenset(names), turns)

    @reads
    def count_turns(self, connection: Connection) -> int | None:
        """Return how often attempts were acquired in all, or None during possible writes."""
        return _count_turns(connection)

    @writes
    def run_undisturbed(self, connection: Connection, turns: int, work: Callable[[], None]) -> bool:
        """Run `work`, of seconds at most, while no attempt can be acquired.

        Return False without running it if an attempt was acquired since `turns` was counted. `work`
        can run more than once, and running it again must leave the same result as running it once.
        """
        if connection.dialect.name == "postgresql":  # on SQLite a writer is alone anyway
            execute(connection, "LOCK TABLE leases IN SHARE ROW EXCLUSIVE MODE")
        if _count_turns(connection) != turns:
            return False
        work()
        return True

    def compact(self) -> int:
        """Compact the file of SQLite. Return the number of bytes freed.

        This blocks all other writers, so run it only while no attempt is leased.
        """
        return self.database.compact()


def _delete(connection: Connection, attempt_id: str, *tables: str) -> None:
    for table in tables:
        statement = f"DELETE FROM {table} WHERE attempt_id = :attempt_id"
        execute(connection, statement, attempt_id=attempt_id)


def _count_turns(connection: Connection) -> int | None:
    """Return how often attempts were acquired in all, or None during possible writes."""
    statement = """
        SELECT
            COALESCE(SUM(epoch), 0) AS turns,
            COUNT(CASE WHEN expires_at > clock() - :unreturned_s THEN 1 END) AS writing
        FROM leases
    """
    row = execute(connection, statement, unreturned_s=UNRETURNED_S).fetchone()
    return None if row.writing else int(row.turns)
