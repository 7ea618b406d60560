"""Rows of attempts, and of the lakes that they belong to.

A lake claims each experiment of a journal. A copy of a database has the same id: a sign that was
made after the copy proves which journal it is.
"""

from dataclasses import asdict
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from agent.errors import JournalError
from agent.journal import leases, ledger
from agent.journal.database import clock
from agent.journal.tables import attempts, claims, signs
from agent.journal.types import Attempt, Claim, Lease

SIGN_S = 90 * 24 * 3600.0
"""Retention time of a sign: longer than any run."""

_CLAIM = {
    dialect: insert_into(claims).on_conflict_do_nothing()
    for dialect, insert_into in (("sqlite", sqlite_insert), ("postgresql", postgresql_insert))
}

# Two workers may declare the same attempt at the same moment.
_DECLARE = {
    dialect: statement.on_conflict_do_nothing().returning(attempts.c.attempt_id)
    for dialect, statement in (
        ("sqlite", sqlite_insert(attempts)),
        ("postgresql", postgresql_insert(attempts)),
    )
}

FIELDS = tuple(column for column in attempts.c if column.name not in ("outcome", "pruned_at"))


def declare(connection: Connection, attempt: Attempt) -> bool:
    """Insert an attempt with a free lease. Return False if the attempt already exists.

    Raises:
        JournalError: another attempt has the same id.
    """
    declared = _DECLARE[connection.dialect.name]
    if connection.execute(declared, asdict(attempt)).first() is None:
        known = find(connection, attempt.attempt_id)
        assert known is not None, "it is what stood in the way"
        _compare(known, attempt)
        return False
    leases.offer(connection, attempt.attempt_id)
    ledger.open_totals(connection, ledger.names(attempt))
    return True


def find(connection: Connection, attempt_id: str) -> Attempt | None:
    """Return the attempt with that id, or None."""
    row = connection.execute(select(*FIELDS).where(attempts.c.attempt_id == attempt_id)).first()
    return None if row is None else Attempt(**row._mapping)


def find_by_prefix(connection: Connection, prefix: str) -> list[Attempt]:
    """Return the attempts whose id starts with a prefix, by id."""
    # LIKE has wildcards and, on SQLite, ignores case.
    starts = func.substr(attempts.c.attempt_id, 1, len(prefix)) == prefix
    rows = connection.execute(select(*FIELDS).where(starts)).all()
    return sorted((Attempt(**row._mapping) for row in rows), key=lambda one: one.attempt_id)


def find_at_instance(connection: Connection, experiment: str, instance_id: str) -> list[Attempt]:
    """Return the attempts of an experiment at an instance whose steps were not pruned, by id."""
    chosen = (
        (attempts.c.experiment == experiment)
        & (attempts.c.instance_id == instance_id)
        & attempts.c.pruned_at.is_(None)
    )
    rows = connection.execute(select(*FIELDS).where(chosen).order_by(attempts.c.attempt_id)).all()
    return [Attempt(**row._mapping) for row in rows]


def outcome(connection: Connection, attempt_id: str) -> str | None:
    """Return the outcome of the attempt, or None while it has not ended."""
    found = connection.execute(
        select(attempts.c.outcome).where(attempts.c.attempt_id == attempt_id)
    )
    return found.scalar()


def get_pruning_time(connection: Connection, attempt_id: str) -> datetime | None:
    """Return when the attempt's steps were removed, UTC, or None if they were not."""
    found = connection.execute(
        select(attempts.c.pruned_at).where(attempts.c.attempt_id == attempt_id)
    ).scalar()
    return None if found is None else datetime.fromtimestamp(found, UTC)


def end(connection: Connection, lease: Lease, outcome: str) -> None:
    """Record the outcome of the attempt, as JSON text defined by the caller.

    Raises:
        FencedError: another worker has acquired the attempt.
    """
    _set_outcome(connection, lease, outcome)


def reopen(connection: Connection, lease: Lease) -> None:
    """Remove the outcome of the attempt, so that it can resume.

    Raises:
        FencedError: another worker has acquired the attempt.
        JournalError: its steps were pruned, so it would buy them again.
    """
    if get_pruning_time(connection, lease.attempt_id) is not None:
        raise JournalError(
            f"attempt {lease.attempt_id} cannot resume: its steps were pruned", retryable=False
        )
    _set_outcome(connection, lease, None)


def _set_outcome(connection: Connection, lease: Lease, outcome: str | None) -> None:
    leases.check(connection, lease)
    connection.execute(
        update(attempts).where(attempts.c.attempt_id == lease.attempt_id).values(outcome=outcome)
    )


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


def drop_claim(connection: Connection, experiment: str) -> None:
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


def _compare(known: Attempt, given: Attempt) -> None:
    """Check that both declarations agree.

    A fork may be restarted by its id alone, without its parent.
    """
    for field in ("experiment", "arm", "instance_id", "repeat", "spec"):
        there, here = getattr(known, field), getattr(given, field)
        if there != here:
            raise JournalError(
                f"attempt {known.attempt_id} is in the journal with another {field}: "
                f"{there}, not {here}",
                retryable=False,
            )
