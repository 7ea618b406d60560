"""A queue of work that many workers take from, each piece of work by one of them at a time.

A worker takes work in the name of a lease that it holds, and keeps it while it renews the lease.
Work of a dead worker is free again when its lease has expired.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from agent.journal.database import Database, clock, reads, writes
from agent.journal.tables import leases, queue

KEPT_S = 7 * 24 * 3600.0
"""Retention time of a queue: longer than any run."""

LATE_S = 60.0
"""`ended` finds an end that was committed at most this long after its time."""

_ADD = {
    dialect: insert_into(queue).values(holder="", added_at=clock()).on_conflict_do_nothing()
    for dialect, insert_into in (("sqlite", sqlite_insert), ("postgresql", postgresql_insert))
}

_OPEN = queue.c.run == bindparam("of_run"), queue.c.ended_as.is_(None)
_IS_HELD = (
    select(leases.c.epoch)
    .where(leases.c.attempt_id == queue.c.holder, leases.c.expires_at > clock())
    .exists()
)
_NEXT = (
    select(queue.c.name, queue.c.losses, queue.c.holder)
    .where(
        *_OPEN,
        ~_IS_HELD,
        queue.c.holder != bindparam("by"),  # its lease may have lapsed while it was suspended
        queue.c.position >= bindparam("start"),
    )
    .order_by(queue.c.position)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_NEXT_FRESH = _NEXT.where(queue.c.holder == "", queue.c.losses == 0)
_PLACES = select(queue.c.name, queue.c.position).where(*_OPEN).order_by(queue.c.position)
_COUNT = select(func.count()).select_from(queue).where(*_OPEN)
_IS_KEPT = (
    select(leases.c.epoch)
    .where(leases.c.attempt_id == queue.c.holder, leases.c.expires_at > clock() + bindparam("soon"))
    .exists()
)
_CLAIMABLE = select(func.count()).select_from(queue).where(*_OPEN, ~_IS_KEPT)
_HOLDERS = (
    select(leases.c.attempt_id, leases.c.worker)
    .join(queue, queue.c.holder == leases.c.attempt_id)
    .where(*_OPEN, leases.c.expires_at > clock())
    .distinct()
)
_ENDED = select(queue.c.name, queue.c.ended_as, queue.c.result, queue.c.ended_at).where(
    queue.c.run == bindparam("of_run"), queue.c.ended_at > bindparam("since")
)
_ROW = queue.c.run == bindparam("of_run"), queue.c.name == bindparam("of_name")
_TAKE = update(queue).where(*_ROW).values(holder=bindparam("by"), losses=bindparam("with_losses"))
_HELD = *_OPEN, queue.c.holder == bindparam("by")
_GIVE_BACK = update(queue).where(*_HELD, queue.c.name == bindparam("of_name")).values(holder="")
_GIVE_BACK_ALL = update(queue).where(*_HELD).values(holder="")
_AS_ENDED = {
    "ended_as": bindparam("as_end"),
    "result": bindparam("with_result"),
    "ended_at": clock(),
}
_END = update(queue).where(*_HELD, queue.c.name == bindparam("of_name")).values(_AS_ENDED)
_FREE = select(queue.c.name).where(*_OPEN, queue.c.holder == "").with_for_update(skip_locked=True)
_WITHDRAW = update(queue).where(*_ROW, queue.c.holder == "").values(_AS_ENDED)
_END_FOR_GOOD = update(queue).where(*_OPEN, queue.c.name == bindparam("of_name")).values(_AS_ENDED)


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
        connection.execute(delete(queue).where(queue.c.added_at < clock() - KEPT_S))
        rows = [{"run": self.run, "name": name, "position": at} for at, name in enumerate(names)]
        if rows:
            connection.execute(_ADD[connection.dialect.name], rows)

    @reads
    def open(self, connection: Connection) -> dict[str, int]:
        """Return the positions of the work that has not ended, by name and in order."""
        return {row.name: row.position for row in connection.execute(_PLACES, self._key())}

    @reads
    def count_unended(self, connection: Connection) -> int:
        """Return the number of pieces of work that have not ended."""
        return connection.execute(_COUNT, self._key()).scalar_one()

    @reads
    def claimable(self, connection: Connection, soon_s: float) -> int:
        """Return the number of pieces that no worker holds for longer than `soon_s`."""
        return connection.execute(_CLAIMABLE, self._key(soon=soon_s)).scalar_one()

    @writes
    def take(
        self, connection: Connection, holder: str, start: int = 0, *, fresh: bool = False
    ) -> Taken | None:
        """Take the next work from position `start` on, and then from the beginning.

        With `fresh`, leave work whose holder died to others. Return None if there is none to take.
        """
        following = _NEXT_FRESH if fresh else _NEXT
        for first in {start: None, 0: None}:
            found = connection.execute(following, self._key(start=first, by=holder)).first()
            if found is not None:
                taken = Taken(found.name, found.losses + (found.holder != ""))
                key = self._key(of_name=taken.name, by=holder, with_losses=taken.losses)
                connection.execute(_TAKE, key)
                return taken
        return None

    @writes
    def give_back(self, connection: Connection, name: str, holder: str) -> None:
        """Free held work that has not ended."""
        connection.execute(_GIVE_BACK, self._key(of_name=name, by=holder))

    @writes
    def give_back_all(self, connection: Connection, holder: str) -> None:
        """Free all work of a holder that has not ended."""
        connection.execute(_GIVE_BACK_ALL, self._key(by=holder))

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
        values = self._key(of_name=name, as_end=ended_as, with_result=result)
        if is_final:
            connection.execute(_END_FOR_GOOD, values)
        else:
            connection.execute(_END, {**values, "by": holder})

    @writes
    def withdraw(
        self, connection: Connection, groups: Sequence[Sequence[str]], ended_as: str
    ) -> list[str]:
        """End the work of those groups of which no piece was ever taken. Return its names.

        Work that was given back counts as not taken.
        """
        free = set(connection.execute(_FREE, self._key()).scalars())
        names = [name for group in groups if free.issuperset(group) for name in group]
        end = {"as_end": ended_as, "with_result": ""}
        if names:
            connection.execute(_WITHDRAW, [self._key(of_name=name, **end) for name in names])
        return names

    @reads
    def holders(self, connection: Connection) -> dict[str, str]:
        """Return the worker of each lease that holds work, by the name of the lease."""
        return {row.attempt_id: row.worker for row in connection.execute(_HOLDERS, self._key())}

    @reads
    def list_ended(self, connection: Connection, since: float = 0.0) -> list[Ended]:
        """Return the work that ended later than `LATE_S` before `since`, in seconds since 1970."""
        key = self._key(since=max(0.0, since - LATE_S))
        return [Ended(*row) for row in connection.execute(_ENDED, key)]

    def _key(self, **values: str | float) -> dict[str, str | float]:
        return {"of_run": self.run, **values}
