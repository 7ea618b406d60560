"""Rows of tenures: which worker held an attempt when."""

from datetime import UTC, datetime

from sqlalchemy import Connection, bindparam, func, insert, select, update

from agent.journal.database import clock
from agent.journal.tables import steps, tenures
from agent.journal.types import Lease, Tenure

_BEGIN = insert(tenures).values(began_at=clock())
_END = (
    update(tenures)
    .where(
        tenures.c.attempt_id == bindparam("attempt"),
        tenures.c.epoch == bindparam("held"),
        tenures.c.ended_at.is_(None),
    )
    .values(ended_at=clock())
)


def begin(connection: Connection, lease: Lease) -> None:
    """Record that a worker has acquired an attempt."""
    row = {"attempt_id": lease.attempt_id, "epoch": lease.epoch, "worker": lease.worker}
    connection.execute(_BEGIN, row)


def end(connection: Connection, lease: Lease) -> None:
    """Record that a worker has given an attempt back."""
    connection.execute(_END, {"attempt": lease.attempt_id, "held": lease.epoch})


def read(connection: Connection, attempt_id: str) -> list[Tenure]:
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
