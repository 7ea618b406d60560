"""One writer per attempt: its lease, the check of every write, and who held it when."""

from collections.abc import Collection
from datetime import UTC, datetime

from sqlalchemy import Connection, bindparam, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.sql.elements import ColumnElement

from agent.errors import FencedError, JournalError, LeaseHeld
from agent.journal.database import clock
from agent.journal.tables import PreparedStatement, leases, steps, tenures
from agent.journal.types import Lease, Tenure

RELEASED, EXPIRED = 0.0, 1.0
"""Expiry times of leases that were released, and of leases whose holder is known to be dead."""

_HELD = leases.c.attempt_id == bindparam("attempt"), leases.c.epoch == bindparam("held")

_CHECK = PreparedStatement(select(leases.c.epoch).where(*_HELD).with_for_update())
_BEGIN = PreparedStatement(
    update(leases)
    .where(*_HELD)
    .values(ordinal=leases.c.ordinal + bindparam("number"))
    .returning(leases.c.ordinal, clock().label("now"))
)
_BEGIN_TENURE = insert(tenures).values(began_at=clock())
_END_TENURE = (
    update(tenures)
    .where(
        tenures.c.attempt_id == bindparam("attempt"),
        tenures.c.epoch == bindparam("held"),
        tenures.c.ended_at.is_(None),
    )
    .values(ended_at=clock())
)
# The lease of a removed attempt still exists.
_OPEN = {
    dialect: insert_into(leases)
    .values(epoch=0, worker="", expires_at=0.0, ordinal=0)
    .on_conflict_do_nothing()
    for dialect, insert_into in (("sqlite", sqlite_insert), ("postgresql", postgresql_insert))
}
_EXTEND = update(leases).where(*_HELD).values(expires_at=clock() + bindparam("ttl_s"))
_RELEASE = update(leases).where(*_HELD).values(expires_at=RELEASED)


def check(connection: Connection, lease: Lease) -> None:
    """Prevent other workers from acquiring the attempt until the transaction ends.

    Raises:
        FencedError: another worker has already acquired it.
    """
    if _CHECK.run(connection, _key(lease)).fetchone() is None:
        raise _make_fenced_error(lease)


def begin_steps(connection: Connection, lease: Lease, number: int) -> tuple[range, float]:
    """Check the lease like `check`. Return the ordinals of `number` further steps, and the time."""
    begun = _BEGIN.run(connection, {**_key(lease), "number": number}).fetchone()
    if begun is None:
        raise _make_fenced_error(lease)
    return range(begun.ordinal - number + 1, begun.ordinal + 1), begun.now


def acquire(connection: Connection, attempt_id: str, worker: str, ttl_s: float) -> Lease:
    """Start the next epoch of an attempt without another active worker.

    Raises:
        LeaseHeld: another worker's lease has not expired.
        JournalError: there is no such attempt.
    """
    free: ColumnElement[bool] = or_(leases.c.expires_at <= clock(), leases.c.worker == worker)
    taken = connection.execute(
        update(leases)
        .where(leases.c.attempt_id == attempt_id, free)
        .values(epoch=leases.c.epoch + 1, worker=worker, expires_at=clock() + ttl_s)
        .returning(leases.c.epoch)
    ).first()
    if taken is None:
        raise _make_holder_error(connection, attempt_id)
    return Lease(attempt_id, taken.epoch, worker)


def offer(connection: Connection, name: str) -> None:
    """Create a free lease of that name, unless it exists.

    It is that of an attempt, or of other work that only one worker may do at a time.
    """
    connection.execute(_OPEN[connection.dialect.name], {"attempt_id": name})


def renew(connection: Connection, lease: Lease, ttl_s: float) -> None:
    """Set the expiry of the lease to `ttl_s` seconds from now.

    Raises:
        FencedError: another worker has acquired the lease.
    """
    if connection.execute(_EXTEND, {**_key(lease), "ttl_s": ttl_s}).rowcount == 0:
        raise _make_fenced_error(lease)


def release(connection: Connection, lease: Lease) -> None:
    """Release the lease. Do nothing if another worker has acquired it."""
    connection.execute(_RELEASE, _key(lease))
    connection.execute(_END_TENURE, _key(lease))


def holder(connection: Connection, attempt_id: str) -> str | None:
    """Return the worker whose lease on the attempt has not expired, or None."""
    found = connection.execute(
        select(leases.c.worker).where(
            leases.c.attempt_id == attempt_id, leases.c.expires_at > clock()
        )
    ).first()
    return found.worker if found else None


def holders(connection: Connection, names: Collection[str]) -> dict[str, str]:
    """Return the workers of those leases that have not expired, by name."""
    found = connection.execute(
        select(leases.c.attempt_id, leases.c.worker).where(
            leases.c.attempt_id.in_(names), leases.c.expires_at > clock()
        )
    )
    return {row.attempt_id: row.worker for row in found}


def find_lapsed(connection: Connection, names: Collection[str]) -> set[str]:
    """Return those leases that have expired and were not released."""
    found = connection.execute(
        select(leases.c.attempt_id).where(
            leases.c.attempt_id.in_(names),
            leases.c.expires_at > RELEASED,
            leases.c.expires_at <= clock(),
        )
    )
    return set(found.scalars())


def expire(connection: Connection, attempt_id: str, worker: str) -> None:
    """Expire a lease now, if that worker has it."""
    connection.execute(
        update(leases)
        .where(
            leases.c.attempt_id == attempt_id,
            leases.c.worker == worker,
            leases.c.expires_at > RELEASED,
        )
        .values(expires_at=EXPIRED)
    )


def active(connection: Connection) -> set[str]:
    """Return the ids of the attempts whose lease has not expired."""
    found = connection.execute(select(leases.c.attempt_id).where(leases.c.expires_at > clock()))
    return set(found.scalars())


def begin_tenure(connection: Connection, lease: Lease) -> None:
    """Record that a worker has acquired an attempt."""
    row = {"attempt_id": lease.attempt_id, "epoch": lease.epoch, "worker": lease.worker}
    connection.execute(_BEGIN_TENURE, row)


def read_tenures(connection: Connection, attempt_id: str) -> list[Tenure]:
    """Return the tenures of an attempt, the first one first."""
    made = (
        select(
            steps.c.epoch,
            func.count().label("steps"),
            func.min(steps.c.ordinal).label("first_ordinal"),
        )
        .where(steps.c.attempt_id == attempt_id)
        .group_by(steps.c.epoch)
        .subquery()
    )
    found = connection.execute(
        select(tenures, made.c.steps, made.c.first_ordinal)
        .outerjoin(made, made.c.epoch == tenures.c.epoch)
        .where(tenures.c.attempt_id == attempt_id)
        .order_by(tenures.c.epoch)
    )
    return [
        Tenure(
            worker=row.worker,
            began_at=datetime.fromtimestamp(row.began_at, UTC),
            ended_at=None if row.ended_at is None else datetime.fromtimestamp(row.ended_at, UTC),
            steps=row.steps or 0,
            first_ordinal=row.first_ordinal,
        )
        for row in found
    ]


def _key(lease: Lease) -> dict[str, str | int]:
    return {"attempt": lease.attempt_id, "held": lease.epoch}


def _make_holder_error(connection: Connection, attempt_id: str) -> LeaseHeld | JournalError:
    holder = connection.execute(
        select(leases.c.worker, (leases.c.expires_at - clock()).label("left")).where(
            leases.c.attempt_id == attempt_id
        )
    ).first()
    if holder is None:
        return JournalError(f"the journal has no attempt {attempt_id}", retryable=False)
    left = max(0.0, holder.left)
    return LeaseHeld(
        f"attempt {attempt_id} is held by {holder.worker}, for {left:.0f} s unless it renews",
        attempt_id,
    )


def _make_fenced_error(lease: Lease) -> FencedError:
    return FencedError(
        f"attempt {lease.attempt_id} is now held by another worker: {lease.worker} held it in "
        f"epoch {lease.epoch}",
        name=lease.attempt_id,
    )
