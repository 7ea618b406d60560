"""How a database comes to have the journal's tables, from whatever version it has.

A migration that was ever released is never edited; a change of `tables` is a new one.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, inspect, text

from agent.errors import JournalError

LOCK = 0x6475726162656E63
"""Key of the advisory lock under which PostgreSQL is migrated."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE attempts (
            attempt_id TEXT PRIMARY KEY,
            experiment TEXT NOT NULL,
            arm TEXT NOT NULL,
            instance_id TEXT NOT NULL,
            repeat INTEGER NOT NULL,
            spec TEXT NOT NULL,
            parent_id TEXT,
            fork_scope TEXT,
            fork_seq INTEGER,
            outcome TEXT
        )
        """,
        """
        CREATE TABLE leases (
            attempt_id TEXT PRIMARY KEY,
            epoch INTEGER NOT NULL,
            worker TEXT NOT NULL,
            expires_at DOUBLE PRECISION NOT NULL,
            ordinal INTEGER NOT NULL
        )
        """,
        """
        CREATE TABLE steps (
            attempt_id TEXT NOT NULL,
            scope TEXT NOT NULL,
            seq INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            ordinal INTEGER NOT NULL,
            kind TEXT NOT NULL,
            digest TEXT NOT NULL,
            request {bytes} NOT NULL,
            result {bytes},
            cost_usd DOUBLE PRECISION,
            settled_nusd BIGINT,
            started_at DOUBLE PRECISION NOT NULL,
            duration_s DOUBLE PRECISION,
            tree TEXT,
            PRIMARY KEY (attempt_id, scope, seq)
        )
        """,
        """
        CREATE TABLE ledger (
            attempt_id TEXT NOT NULL,
            scope TEXT NOT NULL,
            seq INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'lost')),
            reserved_nusd BIGINT NOT NULL,
            billed_nusd BIGINT NOT NULL,
            PRIMARY KEY (attempt_id, scope, seq, epoch)
        )
        """,
        """
        CREATE TABLE totals (
            kind TEXT NOT NULL,
            name TEXT NOT NULL,
            nusd BIGINT NOT NULL,
            calls INTEGER NOT NULL,
            PRIMARY KEY (kind, name)
        )
        """,
    ),
    (
        """
        CREATE TABLE rates (
            name TEXT PRIMARY KEY,
            free_at DOUBLE PRECISION NOT NULL
        )
        """,
    ),
    ("ALTER TABLE attempts ADD COLUMN pruned_at DOUBLE PRECISION",),
)
"""Statements per version, the first version first; `{bytes}` is the dialect's byte string."""

BYTES = {"sqlite": "BLOB", "postgresql": "BYTEA"}


def migrate(connection: Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Bring the database to the newest version, within the caller's write transaction.

    Raises:
        JournalError: the database was written by a newer release.
    """
    _lock(connection)
    version = _version(connection)
    if version > len(migrations):
        raise JournalError(
            f"the journal has schema {version} and this release knows {len(migrations)}: "
            "use the release that wrote it, or a newer one",
            retryable=False,
        )
    for statements in migrations[version:]:
        for statement in statements:
            connection.exec_driver_sql(statement.format(bytes=BYTES[connection.dialect.name]))
    if version < len(migrations):
        connection.execute(
            text("UPDATE journal_version SET version = :version"), {"version": len(migrations)}
        )


def _lock(connection: Connection) -> None:
    # On SQLite a write transaction is alone anyway.
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})


def _version(connection: Connection) -> int:
    """The version in the database; 0, and the table to keep it in, for an empty one."""
    if not inspect(connection).has_table("journal_version"):
        connection.execute(text("CREATE TABLE journal_version (version INTEGER NOT NULL)"))
        connection.execute(text("INSERT INTO journal_version VALUES (0)"))
    version: int = connection.execute(text("SELECT version FROM journal_version")).scalar_one()
    return version
