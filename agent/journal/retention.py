"""What the journal keeps of each attempt, and how it comes to keep less."""

from collections.abc import Callable, Collection, Iterator

from sqlalchemy import Connection, LargeBinary, case, delete, func, literal, select, text, update

from agent.errors import JournalError
from agent.journal import ledger, ties
from agent.journal.attempts import FIELDS, find
from agent.journal.bodies import BLOB
from agent.journal.database import Database, clock
from agent.journal.leases import acquire, release
from agent.journal.tables import attempts, leases, steps
from agent.journal.types import Attempt, Holding, References

WORKER = "retention"
"""Who takes an attempt to remove something of it: whoever lost it before is fenced then."""

UNRETURNED_S = 24 * 3600.0
"""How long a worker counts as writing that stopped without a word: it may only be slow."""


class Retention:
    """The part of a journal that removes what is in it.

    As in the journal, every method is one transaction that raises JournalError when the database
    stays away. No step or bill of an attempt goes while somebody holds it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def holdings(self) -> list[Holding]:
        """What is kept of each attempt, by its id."""
        return self._database.read(_holdings)

    def prune(self, attempt_id: str) -> None:
        """Remove the steps of an attempt that has ended; its outcome and its bill stay.

        Raises:
            LeaseHeld: somebody works on it.
            JournalError: it has not ended, or there is none.
        """
        self._database.write(lambda connection: _prune(connection, attempt_id))

    def remove(self, attempt_id: str) -> None:
        """Forget an attempt with its outcome and its bill, as if it had never been started.

        Raises:
            LeaseHeld: somebody works on it.
            JournalError: there was none.
        """
        self._database.write(lambda connection: _remove(connection, attempt_id))

    def references(self, without: Collection[str] = ()) -> References:
        """What steps refer to in content-addressed storage, apart from those of some attempts."""
        return self._database.read(lambda connection: _references(connection, without))

    def undisturbed(self, turns: int, work: Callable[[], None]) -> bool:
        """Do a piece of work, of seconds at most, while nobody can take an attempt.

        False, and nothing is done, if somebody has taken one since `turns` was counted. `work`
        may run more than once, and has to leave the same behind as if it had run once.
        """

        def when_still(connection: Connection) -> bool:
            _stand_still(connection)
            if _turns(connection) != turns:
                return False
            work()
            return True

        return self._database.write(when_still)

    def compact(self) -> int:
        """Give the room that SQLite's file does not use any more back to the disk; its bytes.

        Everybody else waits meanwhile, so it is for when nobody holds an attempt. PostgreSQL
        sees to it itself, and 0 is returned.
        """
        return self._database.compact()


def _holdings(connection: Connection) -> list[Holding]:
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
            attempt=Attempt(**{column.name: row._mapping[column] for column in FIELDS}),
            has_ended=bool(row.has_ended),
            is_pruned=row.pruned_at is not None,
            is_held=bool(row.is_held),
            steps=row.steps,
            size_bytes=int(row.size_bytes),
            idle_s=row.idle_s,
        )
        for row in found
    ]


def _prune(connection: Connection, attempt_id: str) -> None:
    release(connection, acquire(connection, attempt_id, WORKER, 0.0))
    marked = connection.execute(
        update(attempts)
        .where(attempts.c.attempt_id == attempt_id, attempts.c.outcome.is_not(None))
        .values(pruned_at=clock())
    )
    if marked.rowcount == 0:
        raise JournalError(f"attempt {attempt_id} has not ended", retryable=False)
    connection.execute(delete(steps).where(steps.c.attempt_id == attempt_id))


def _remove(connection: Connection, attempt_id: str) -> None:
    """The row of the lease stays: the epochs of an attempt that is started anew go on from
    there, so that nobody who held it before can write to it."""
    release(connection, acquire(connection, attempt_id, WORKER, 0.0))
    attempt = find(connection, attempt_id)
    if attempt is None:
        return
    ledger.forget(connection, attempt)
    connection.execute(delete(steps).where(steps.c.attempt_id == attempt_id))
    connection.execute(delete(attempts).where(attempts.c.attempt_id == attempt_id))
    ties.forget(connection, attempt.experiment)


def _references(connection: Connection, without: Collection[str]) -> References:
    # Counted first: who takes an attempt meanwhile is noticed before anything goes.
    turns = _turns(connection)
    names = {name for attempt_id, name in _named(connection) if attempt_id not in without}
    return References(frozenset(names), turns)


def _named(connection: Connection) -> Iterator[tuple[str, str]]:
    """Attempts and what they refer to. Work trees are the caller's own words, and each of them
    may be a name."""
    for column in (steps.c.request, steps.c.result):
        how = func.substr(column, 1, 1, type_=LargeBinary)
        digest = func.substr(column, 2, type_=LargeBinary).label("digest")
        lies_there = how == literal(bytes([BLOB]), LargeBinary)
        for row in connection.execute(select(steps.c.attempt_id, digest).where(lies_there)):
            yield row.attempt_id, bytes(row.digest).decode("ascii")
    trees = select(steps.c.attempt_id, steps.c.tree).where(steps.c.tree.is_not(None))
    for row in connection.execute(trees):
        for word in row.tree.split():
            yield row.attempt_id, word


def _turns(connection: Connection) -> int | None:
    """How often attempts were taken, ever; None while somebody may be writing to one."""
    writing = case((leases.c.expires_at > clock() - UNRETURNED_S, 1), else_=0)
    row = connection.execute(
        select(
            func.coalesce(func.sum(leases.c.epoch), 0).label("turns"),
            func.coalesce(func.sum(writing), 0).label("writing"),
        )
    ).one()
    return None if row.writing else int(row.turns)


def _stand_still(connection: Connection) -> None:
    """Let nobody take an attempt until the transaction ends."""
    if connection.dialect.name == "postgresql":  # on SQLite a write transaction is alone anyway
        connection.execute(text("LOCK TABLE leases IN SHARE ROW EXCLUSIVE MODE"))
