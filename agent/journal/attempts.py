"""Rows of attempts, and of the lakes that they belong to.

A lake claims each experiment of a journal. A copy of a database has the same id: a sign that was
made after the copy proves which journal it is.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from agent.errors import JournalError
from agent.journal import leases
from agent.journal.database import execute
from agent.journal.types import Attempt, Claim, Lease

SIGN_S = 90 * 24 * 3600.0
"""Retention time of a sign: longer than any run."""

FIELDS = (
    "attempts.attempt_id, experiment, arm, instance_id, repeat, spec, parent_id, fork_scope, "
    "fork_seq, reuse"
)
"""The columns of an `Attempt`, in the order of its fields."""


def declare(connection: Connection, attempt: Attempt) -> bool:
    """Insert an attempt with a free lease. Return False if the attempt already exists.

    Raises:
        JournalError: another attempt has the same id.
    """
    # Two workers may declare the same attempt at the same moment.
    statement = """
        INSERT INTO attempts (
            attempt_id, experiment, arm, instance_id, repeat, spec, parent_id, fork_scope,
            fork_seq, reuse
        ) VALUES (
            :attempt_id, :experiment, :arm, :instance_id, :repeat, :spec, :parent_id, :fork_scope,
            :fork_seq, :reuse
        )
        ON CONFLICT DO NOTHING
        RETURNING attempt_id
    """
    row = execute(connection, statement, **vars(attempt)).fetchone()
    if row is None:
        earlier = find(connection, attempt.attempt_id)
        # A fork may be restarted by its id alone, without its parent.
        for field in ("experiment", "arm", "instance_id", "repeat", "spec"):
            before, now = getattr(earlier, field), getattr(attempt, field)
            if before != now:
                raise JournalError(
                    f"attempt {attempt.attempt_id} is in the journal with another {field}: "
                    f"{before}, not {now}",
                    retryable=False,
                )
        return False
    leases.offer(connection, attempt.attempt_id)
    execute(
        connection,
        """
        INSERT INTO totals (kind, name, nusd, calls)
        VALUES
            ('attempt', :attempt_id, 0, 0), ('arm', :arm, 0, 0), ('experiment', :experiment, 0, 0)
        ON CONFLICT DO NOTHING
        """,
        attempt_id=attempt.attempt_id,
        arm=f"{attempt.experiment}/{attempt.arm}",
        experiment=attempt.experiment,
    )
    return True


def find(connection: Connection, attempt_id: str) -> Attempt | None:
    """Return the attempt with that id, or None."""
    attempts = _select(connection, "attempt_id = :attempt_id", attempt_id=attempt_id)
    return attempts[0] if attempts else None


def find_by_prefix(connection: Connection, prefix: str) -> list[Attempt]:
    """Return the attempts whose id starts with a prefix, by id."""
    # LIKE has wildcards and, on SQLite, ignores case.
    return _select(
        connection, "SUBSTR(attempt_id, 1, :length) = :prefix", prefix=prefix, length=len(prefix)
    )


def find_at_instance(connection: Connection, experiment: str, instance_id: str) -> list[Attempt]:
    """Return the attempts of an experiment at an instance whose steps were not pruned, by id."""
    return _select(
        connection,
        "experiment = :experiment AND instance_id = :instance_id AND pruned_at IS NULL",
        experiment=experiment,
        instance_id=instance_id,
    )


def _select(connection: Connection, condition: str, **values: Any) -> list[Attempt]:
    rows = execute(connection, f"SELECT {FIELDS} FROM attempts WHERE {condition}", **values)
    # PostgreSQL would sort text by the rules of a language.
    return sorted((Attempt(*row) for row in rows), key=lambda attempt: attempt.attempt_id)


def outcome(connection: Connection, attempt_id: str) -> str | None:
    """Return the outcome of the attempt, or None while it has not ended."""
    statement = "SELECT outcome FROM attempts WHERE attempt_id = :attempt_id"
    row = execute(connection, statement, attempt_id=attempt_id).fetchone()
    return None if row is None else row.outcome


def get_pruning_time(connection: Connection, attempt_id: str) -> datetime | None:
    """Return when the attempt's steps were removed, UTC, or None if they were not."""
    row = execute(
        connection,
        "SELECT pruned_at FROM attempts WHERE attempt_id = :attempt_id AND pruned_at IS NOT NULL",
        attempt_id=attempt_id,
    ).fetchone()
    return None if row is None else datetime.fromtimestamp(row.pruned_at, UTC)


def end(connection: Connection, lease: Lease, outcome: str | None) -> None:
    """Record the outcome of the attempt, as JSON text defined by the caller.

    Raises:
        FencedError: another worker has acquired the attempt.
    """
    leases.check(connection, lease)
    statement = "UPDATE attempts SET outcome = :outcome WHERE attempt_id = :attempt_id"
    execute(connection, statement, outcome=outcome, attempt_id=lease.attempt_id)


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
    end(connection, lease, None)


def claim(connection: Connection, experiment: str, wanted: Claim) -> Claim:
    """Claim an experiment for a lake, unless one has it. Return the claim that holds."""
    statement = """
        INSERT INTO claims (experiment, lake_id, lake) VALUES (:experiment, :lake_id, :lake)
        ON CONFLICT DO NOTHING
    """
    execute(connection, statement, experiment=experiment, **vars(wanted))
    statement = "SELECT lake_id, lake FROM claims WHERE experiment = :experiment"
    row = execute(connection, statement, experiment=experiment).fetchone()
    return Claim(*row)


def hand_over(connection: Connection, to: Claim) -> int:
    """Assign all experiments of the journal to one lake. Return how many belonged to another."""
    statement = "UPDATE claims SET lake_id = :lake_id, lake = :lake WHERE lake_id <> :lake_id"
    count: int = execute(connection, statement, **vars(to)).rowcount
    return count


def leave_sign(connection: Connection, sign: str) -> None:
    """Record a sign, and remove the oldest ones."""
    statement = "DELETE FROM signs WHERE made_at < clock() - :kept_s OR sign = :sign"
    execute(connection, statement, kept_s=SIGN_S, sign=sign)
    execute(connection, "INSERT INTO signs (sign, made_at) VALUES (:sign, clock())", sign=sign)


def has_sign(connection: Connection, sign: str) -> bool:
    """Return True if a sign was recorded."""
    row = execute(connection, "SELECT sign FROM signs WHERE sign = :sign", sign=sign).fetchone()
    return row is not None
