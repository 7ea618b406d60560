"""Sizes of attempts in the journal, and pruning."""

from collections.abc import Callable, Collection, Iterator

from sqlalchemy import Connection, LargeBinary, case, delete, func, literal, select, text, update

from agent.errors import JournalError
from agent.journal import inbox, ledger
from agent.journal.attempts import FIELDS, drop_claim, find
from agent.journal.blobs import BLOB
from agent.journal.database import Database, clock, reads, writes
from agent.journal.leases import acquire, release
from agent.journal.tables import attempts, leases, steps, tenures
from agent.journal.types import Attempt, Holding, References, TreeRef

WORKER = "retention"
"""The worker that acquires an attempt to remove its data. The previous holder is fenced by it."""

UNRETURNED_S = 24 * 3600.0
"""Time for which a worker that never released its lease counts as writing. It may only be slow."""


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
        size = func.length(steps.c.request) + func.coalesce(func.length(steps.c.result), 0)
        last = func.max(steps.c.started_at + func.coalesce(steps.c.duration_s, 0.0))
        found = connection.execute(
            select(
                *FIELDS,
                attempts.c.pruned_at,
                attempts.c.outcome.is_not(None).label("has_ended"),
                (leases.c.expires_at > clock()).label("is_held"),
                func.count(steps.c.result).label("steps"),
                func.coalesce(func.sum(size), 0).label("size_bytes"),
                (clock() - last).label("idle_s"),
            )
            .join(leases, leases.c.attempt_id == attempts.c.attempt_id)
            .outerjoin(steps, steps.c.attempt_id == attempts.c.attempt_id)
            .group_by(attempts.c.attempt_id, leases.c.attempt_id)
            .order_by(attempts.c.attempt_id)
        )
        return [
            Holding(
                attempt=Attempt(*row[: len(FIELDS)]),
                has_ended=bool(row.has_ended),
                is_pruned=row.pruned_at is not None,
                is_held=bool(row.is_held),
                steps=row.steps,
                size_bytes=int(row.size_bytes),
                idle_s=row.idle_s,
            )
            for row in found
        ]

    @writes
    def prune(self, connection: Connection, attempt_id: str) -> None:
        """Remove the steps of an attempt that has ended. Its outcome and its bill are kept.

        Raises:
            LeaseHeld: a worker holds the attempt.
            JournalError: the attempt has not ended or does not exist.
        """
        release(connection, acquire(connection, attempt_id, WORKER, 0.0))
        marked = connection.execute(
            update(attempts)
            .where(attempts.c.attempt_id == attempt_id, attempts.c.outcome.is_not(None))
            .values(pruned_at=clock())
        )
        if marked.rowcount == 0:
            raise JournalError(f"attempt {attempt_id} has not ended", retryable=False)
        connection.execute(delete(steps).where(steps.c.attempt_id == attempt_id))
        inbox.forget(connection, attempt_id)

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
        connection.execute(delete(steps).where(steps.c.attempt_id == attempt_id))
        connection.execute(delete(tenures).where(tenures.c.attempt_id == attempt_id))
        inbox.forget(connection, attempt_id)
        connection.execute(delete(attempts).where(attempts.c.attempt_id == attempt_id))
        drop_claim(connection, attempt.experiment)

    @reads
    def references(self, connection: Connection, without: Collection[str] = ()) -> References:
        """Return all references to content-addressed storage, except those of some attempts."""
        # Counted first, so that an attempt acquired in the meantime is noticed before any removal.
        turns = _turns(connection)
        names = {
            name for attempt_id, name in _list_references(connection) if attempt_id not in without
        }
        return References(frozenset(names), turns)

    @writes
    def run_undisturbed(self, connection: Connection, turns: int, work: Callable[[], None]) -> bool:
        """Run `work`, of seconds at most, while no attempt can be acquired.

        Return False without running it if an attempt was acquired since `turns` was counted. `work`
        may run more than once, and running it again must leave the same result as running it once.
        """
        if connection.dialect.name == "postgresql":  # on SQLite a writer is alone anyway
            connection.execute(text("LOCK TABLE leases IN SHARE ROW EXCLUSIVE MODE"))
        if _turns(connection) != turns:
            return False
        work()
        return True

    def compact(self) -> int:
        """Return the unused space in SQLite's file to the disk. Return the number of bytes freed.

        Blocks all other writers, so run it only while no attempt is leased. PostgreSQL does so by
        itself, so the result is 0.
        """
        return self.database.compact()


def _list_references(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield attempts and the names that their steps refer to."""
    for column in (steps.c.request, steps.c.result):
        how = func.substr(column, 1, 1, type_=LargeBinary)
        digest = func.substr(column, 2, type_=LargeBinary).label("digest")
        lies_there = how == literal(bytes([BLOB]), LargeBinary)
        for row in connection.execute(select(steps.c.attempt_id, digest).where(lies_there)):
            yield row.attempt_id, bytes(row.digest).decode("ascii")
    trees = select(steps.c.attempt_id, steps.c.tree).where(steps.c.tree.is_not(None))
    for row in connection.execute(trees):
        yield row.attempt_id, TreeRef.parse(row.tree).delta


def _turns(connection: Connection) -> int | None:
    """Return how often attempts were acquired in all, or None during possible writes."""
    writing = case((leases.c.expires_at > clock() - UNRETURNED_S, 1), else_=0)
    row = connection.execute(
        select(
            func.coalesce(func.sum(leases.c.epoch), 0).label("turns"),
            func.coalesce(func.sum(writing), 0).label("writing"),
        )
    ).one()
    return None if row.writing else int(row.turns)
