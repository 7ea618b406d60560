"""One writer per attempt: its holder, its expiry, and the check of every write."""

from collections.abc import Collection

from sqlalchemy import Connection, bindparam, or_, select, update
from sqlalchemy.sql.elements import ColumnElement

from agent.errors import FencedError, JournalError, LeaseHeld
from agent.journal.database import clock
from agent.journal.statements import prepared
from agent.journal.tables import leases
from agent.journal.types import Lease

RELEASED, EXPIRED = 0.0, 1.0
"""Expiry times of leases that were released, and of leases whose holder is known to be dead."""

_HELD = leases.c.attempt_id == bindparam("attempt"), leases.c.epoch == bindparam("held")

_CHECK = prepared(select(leases.c.epoch).where(*_HELD).with_for_update())
_BEGIN = prepared(
    update(leases)
    .where(*_HELD)
    .values(ordinal=leases.c.ordinal + bindparam("steps"))
    .returning(leases.c.ordinal, clock().label("now"))
)
_EXTEND = update(leases).where(*_HELD).values(expires_at=clock() + bindparam("ttl_s"))
_RELEASE = update(leases).where(*_HELD).values(expires_at=RELEASED)


def check(connection: Connection, lease: Lease) -> None:
    """Prevent other workers from acquiring the attempt until the transaction ends.

    Raises:
        FencedError: another worker has already acquired it.
    """
    if _CHECK.run(connection, _key(lease)).fetchone() is None:
        raise _fenced(lease)


def begin_steps(connection: Connection, lease: Lease, number: int) -> tuple[range, float]:
    """Check the lease like `check`. Return the ordinals of `number` further steps, and the time."""
    begun = _BEGIN.run(connection, {**_key(lease), "steps": number}).fetchone()
    if begun is None:
        raise _fenced(lease)
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
        raise _held(connection, attempt_id)
    return Lease(attempt_id, taken.epoch, worker)


def renew(connection: Connection, lease: Lease, ttl_s: float) -> None:
    """Set the expiry of the lease to `ttl_s` seconds from now.

    Raises:
        FencedError: another worker has acquired the lease.
    """
    if connection.execute(_EXTEND, {**_key(lease), "ttl_s": ttl_s}).rowcount == 0:
        raise _fenced(lease)


def release(connection: Connection, lease: Lease) -> None:
    """Expire the lease now, if it is still held."""
    connection.execute(_RELEASE, _key(lease))


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


def lapsed(connection: Connection, names: Collection[str]) -> set[str]:
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


def _key(lease: Lease) -> dict[str, str | int]:
    return {"attempt": lease.attempt_id, "held": lease.epoch}


def _held(connection: Connection, attempt_id: str) -> LeaseHeld | JournalError:
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


def _fenced(lease: Lease) -> FencedError:
    return FencedError(
        f"attempt {lease.attempt_id} is now held by another worker: {lease.worker} held it in "
        f"epoch {lease.epoch}",
        name=lease.attempt_id,
    )
