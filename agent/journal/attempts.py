"""Rows of attempts: declare, find and end them."""

from dataclasses import asdict

from sqlalchemy import Connection, func, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from agent.errors import JournalError
from agent.journal import ledger
from agent.journal.tables import attempts, leases
from agent.journal.types import Attempt

# Two workers may declare the same attempt at the same moment.
_DECLARE = {
    dialect: statement.on_conflict_do_nothing().returning(attempts.c.attempt_id)
    for dialect, statement in (
        ("sqlite", sqlite_insert(attempts)),
        ("postgresql", postgresql_insert(attempts)),
    )
}

# The lease of a removed attempt still exists.
_OPEN = {
    dialect: insert_into(leases)
    .values(epoch=0, worker="", expires_at=0.0, ordinal=0)
    .on_conflict_do_nothing()
    for dialect, insert_into in (("sqlite", sqlite_insert), ("postgresql", postgresql_insert))
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
    open_lease(connection, attempt.attempt_id)
    ledger.open_totals(connection, ledger.names(attempt))
    return True


def open_lease(connection: Connection, name: str) -> None:
    """Insert a free lease, unless a lease of that name exists."""
    connection.execute(_OPEN[connection.dialect.name], {"attempt_id": name})


def find(connection: Connection, attempt_id: str) -> Attempt | None:
    """Return the attempt with that id, or None."""
    row = connection.execute(select(*FIELDS).where(attempts.c.attempt_id == attempt_id)).first()
    return None if row is None else Attempt(**row._mapping)


def with_prefix(connection: Connection, prefix: str) -> list[Attempt]:
    """Return the attempts whose id starts with a prefix, by id."""
    # LIKE has wildcards and, on SQLite, ignores case.
    starts = func.substr(attempts.c.attempt_id, 1, len(prefix)) == prefix
    rows = connection.execute(select(*FIELDS).where(starts)).all()
    return sorted((Attempt(**row._mapping) for row in rows), key=lambda one: one.attempt_id)


def at_instance(connection: Connection, experiment: str, instance_id: str) -> list[Attempt]:
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


def pruned_at(connection: Connection, attempt_id: str) -> float | None:
    """Return when the attempt's steps were removed, in seconds since 1970, or None."""
    found = connection.execute(
        select(attempts.c.pruned_at).where(attempts.c.attempt_id == attempt_id)
    )
    return found.scalar()


def set_outcome(connection: Connection, attempt_id: str, outcome: str | None) -> None:
    """End the attempt, or reopen it."""
    connection.execute(
        update(attempts).where(attempts.c.attempt_id == attempt_id).values(outcome=outcome)
    )


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
