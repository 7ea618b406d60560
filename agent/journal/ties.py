"""Links between a journal and lakes: the owner of each experiment, and signs of identity.

A copy of a database has the same id. A sign that was made after the copy proves which journal it
is.
"""

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from agent.journal.database import clock
from agent.journal.tables import attempts, claims, signs
from agent.journal.types import Claim

SIGN_S = 90 * 24 * 3600.0
"""Retention time of a sign: longer than any run."""

_CLAIM = {
    dialect: insert_into(claims).on_conflict_do_nothing()
    for dialect, insert_into in (("sqlite", sqlite_insert), ("postgresql", postgresql_insert))
}


def claim(connection: Connection, experiment: str, wanted: Claim) -> Claim:
    """Claim an experiment for a lake, unless one has it. Return the claim that holds."""
    values = {"experiment": experiment, "lake_id": wanted.lake_id, "lake": wanted.lake}
    connection.execute(_CLAIM[connection.dialect.name], values)
    found = connection.execute(
        select(claims.c.lake_id, claims.c.lake).where(claims.c.experiment == experiment)
    ).one()
    return Claim(found.lake_id, found.lake)


def hand_over(connection: Connection, to: Claim) -> int:
    """Assign all experiments of the journal to one lake. Return how many belonged to another."""
    others = claims.c.lake_id != to.lake_id
    return connection.execute(
        claims.update().where(others).values(lake_id=to.lake_id, lake=to.lake)
    ).rowcount


def forget(connection: Connection, experiment: str) -> None:
    """Remove the claim on an experiment that has no attempts left."""
    left = select(attempts.c.attempt_id).where(attempts.c.experiment == experiment)
    connection.execute(delete(claims).where(claims.c.experiment == experiment, ~left.exists()))


def leave_sign(connection: Connection, sign: str) -> None:
    """Record a sign, and remove the oldest ones."""
    connection.execute(delete(signs).where(signs.c.made_at < clock() - SIGN_S))
    connection.execute(delete(signs).where(signs.c.sign == sign))
    connection.execute(signs.insert().values(sign=sign, made_at=clock()))


def has_sign(connection: Connection, sign: str) -> bool:
    """Return True if a sign was recorded."""
    return connection.execute(select(signs.c.sign).where(signs.c.sign == sign)).first() is not None
