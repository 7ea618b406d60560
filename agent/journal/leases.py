"""One writer per attempt: its lease, the check of every write, and who held it when."""

import json
from collections.abc import Collection
from datetime import UTC, datetime

from sqlalchemy import Connection

from agent.errors import FencedError, JournalError, LeaseHeld
from agent.journal.database import execute
from agent.journal.types import Lease, Tenure

# A lease that was released expires at 0, and one whose holder is dead at 1.


def check(connection: Connection, lease: Lease) -> None:
    """Prevent other workers from acquiring the attempt until the transaction ends.

    Raises:
        FencedError: another worker has already acquired it.
    """
    row = execute(
        connection,
        "SELECT epoch FROM leases WHERE attempt_id = :attempt_id AND epoch = :epoch FOR UPDATE",
        **vars(lease),
    ).fetchone()
    if row is None:
        raise _fence(lease)


def begin_steps(connection: Connection, lease: Lease, number: int) -> tuple[range, float]:
    """Check the lease like `check`. Return the ordinals of `number` further steps, and the time."""
    statement = """
        UPDATE leases SET ordinal = ordinal + :number, retry = NULL, retry_at = NULL
        WHERE attempt_id = :attempt_id AND epoch = :epoch
        RETURNING ordinal, clock() AS now
    """
    row = execute(connection, statement, number=number, **vars(lease)).fetchone()
    if row is None:
        raise _fence(lease)
    return range(row.ordinal - number + 1, row.ordinal + 1), row.now


def acquire(connection: Connection, attempt_id: str, worker: str, ttl_s: float) -> Lease:
    """Start the next epoch of an attempt without another active worker.

    Raises:
        LeaseHeld: another worker's lease has not expired.
        JournalError: there is no such attempt.
    """
    statement = """
        UPDATE leases
        SET epoch = epoch + 1, worker = :worker, expires_at = clock() + :ttl_s,
            retry = NULL, retry_at = NULL
        WHERE attempt_id = :attempt_id AND (expires_at <= clock() OR worker = :worker)
        RETURNING epoch
    """
    row = execute(
        connection, statement, attempt_id=attempt_id, worker=worker, ttl_s=ttl_s
    ).fetchone()
    if row is not None:
        return Lease(attempt_id, row.epoch, worker)
    row = execute(
        connection,
        "SELECT worker, expires_at - clock() AS rest_s FROM leases WHERE attempt_id = :attempt_id",
        attempt_id=attempt_id,
    ).fetchone()
    if row is None:
        raise JournalError(f"the journal has no attempt {attempt_id}", retryable=False)
    rest_s = max(0.0, row.rest_s)
    raise LeaseHeld(
        f"attempt {attempt_id} is held by {row.worker}, for {rest_s:.0f} s unless it renews",
        attempt_id,
    )


def offer(connection: Connection, name: str) -> None:
    """Create a free lease of that name, unless it exists.

    It belongs to an attempt, or to other work that only one worker can do at a time.
    """
    # The lease of a removed attempt still exists.
    statement = """
        INSERT INTO leases (attempt_id, epoch, worker, expires_at, ordinal)
        VALUES (:name, 0, '', 0, 0)
        ON CONFLICT DO NOTHING
    """
    execute(connection, statement, name=name)


def renew(connection: Connection, lease: Lease, ttl_s: float) -> None:
    """Set the expiry of the lease to `ttl_s` seconds from now.

    Raises:
        FencedError: another worker has acquired the lease.
    """
    statement = """
        UPDATE leases SET expires_at = clock() + :ttl_s
        WHERE attempt_id = :attempt_id AND epoch = :epoch
    """
    cursor = execute(connection, statement, ttl_s=ttl_s, **vars(lease))
    if cursor.rowcount == 0:
        raise _fence(lease)


def release(connection: Connection, lease: Lease) -> None:
    """Release the lease. Do nothing if another worker has acquired it."""
    statement = """
        UPDATE leases SET expires_at = 0, retry = NULL, retry_at = NULL
        WHERE attempt_id = :attempt_id AND epoch = :epoch
    """
    execute(connection, statement, **vars(lease))
    statement = """
        UPDATE tenures SET ended_at = clock()
        WHERE attempt_id = :attempt_id AND epoch = :epoch AND ended_at IS NULL
    """
    execute(connection, statement, **vars(lease))


def note_retry(connection: Connection, lease: Lease, retry: str, wait_s: float) -> None:
    """Note until the next step that a call has failed, and is repeated after a wait."""
    statement = """
        UPDATE leases SET retry = :retry, retry_at = clock() + :wait_s
        WHERE attempt_id = :attempt_id AND epoch = :epoch
    """
    execute(connection, statement, retry=retry, wait_s=wait_s, **vars(lease))


def holder(connection: Connection, attempt_id: str) -> str | None:
    """Return the worker whose lease on the attempt has not expired, or None."""
    return holders(connection, [attempt_id]).get(attempt_id)


def holders(connection: Connection, names: Collection[str]) -> dict[str, str]:
    """Return the workers of those leases that have not expired, by name."""
    statement = """
        SELECT attempt_id, worker FROM leases
        WHERE attempt_id IN (SELECT value FROM json_each(:names)) AND expires_at > clock()
    """
    rows = execute(connection, statement, names=json.dumps([*names]))
    return {row.attempt_id: row.worker for row in rows}


def find_lapsed(connection: Connection, names: Collection[str]) -> set[str]:
    """Return those leases that have expired and were not released."""
    statement = """
        SELECT attempt_id FROM leases
        WHERE attempt_id IN (SELECT value FROM json_each(:names))
            AND expires_at > 0 AND expires_at <= clock()
    """
    rows = execute(connection, statement, names=json.dumps([*names]))
    return {row.attempt_id for row in rows}


def expire(connection: Connection, attempt_id: str, worker: str) -> None:
    """Expire a lease now, if that worker has it."""
    statement = """
        UPDATE leases SET expires_at = 1
        WHERE attempt_id = :attempt_id AND worker = :worker AND expires_at > 0
    """
    execute(connection, statement, attempt_id=attempt_id, worker=worker)


def active(connection: Connection) -> set[str]:
    """Return the ids of the attempts whose lease has not expired."""
    rows = execute(connection, "SELECT attempt_id FROM leases WHERE expires_at > clock()")
    return {row.attempt_id for row in rows}


def begin_tenure(connection: Connection, lease: Lease) -> None:
    """Record that a worker has acquired an attempt."""
    statement = """
        INSERT INTO tenures (attempt_id, epoch, worker, began_at)
        VALUES (:attempt_id, :epoch, :worker, clock())
    """
    execute(connection, statement, **vars(lease))


def read_tenures(connection: Connection, attempt_id: str) -> list[Tenure]:
    """Return the tenures of an attempt, the first one first."""
    statement = """
        SELECT worker, began_at, ended_at, steps, first_ordinal
        FROM tenures LEFT JOIN (
            SELECT epoch, COUNT(*) AS steps, MIN(ordinal) AS first_ordinal
            FROM steps WHERE attempt_id = :attempt_id GROUP BY epoch
        ) AS steps_of_epoch ON steps_of_epoch.epoch = tenures.epoch
        WHERE attempt_id = :attempt_id
        ORDER BY tenures.epoch
    """
    rows = execute(connection, statement, attempt_id=attempt_id)
    return [
        Tenure(
            worker=row.worker,
            began_at=datetime.fromtimestamp(row.began_at, UTC),
            ended_at=None if row.ended_at is None else datetime.fromtimestamp(row.ended_at, UTC),
            steps=row.steps or 0,
            first_ordinal=row.first_ordinal,
        )
        for row in rows
    ]


def _fence(lease: Lease) -> FencedError:
    return FencedError(
        f"attempt {lease.attempt_id} is now held by another worker: {lease.worker} held it in "
        f"epoch {lease.epoch}",
        name=lease.attempt_id,
    )
