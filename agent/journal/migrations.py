"""Create the journal's tables, or upgrade them from any earlier version.

A released migration is never edited. A change of the schema is a new migration.

Times are in seconds since 1970, and amounts `nusd` in billionths of a dollar. The epoch is 0 in a
step that a fork copied, and in a lease that was never held. Its name can belong to other work than
an attempt. NULL is unknown, except in `steps.result` (an intent), `steps.settled_nusd` (no call),
`steps.bench` (in no workspace), `tenures.ended_at` (not given back), `attempts.pruned_at` (not
pruned), `attempts.reuse` (forked by a prefix), `queue.ended_as` (open) and `leases.retry` (no call
is repeated).
"""

import uuid
from collections.abc import Sequence

from sqlalchemy import Connection, inspect, text

from agent.errors import JournalError

_VERSION = "journal_version"

LOCK = 0x6475726162656E63
"""Key of the advisory lock under which PostgreSQL is migrated."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE attempts (
            attempt_id TEXT PRIMARY KEY, experiment TEXT NOT NULL, arm TEXT NOT NULL,
            instance_id TEXT NOT NULL, repeat INTEGER NOT NULL, spec TEXT NOT NULL,
            parent_id TEXT, fork_scope TEXT, fork_seq INTEGER, outcome TEXT
        )
        """,
        """
        CREATE TABLE leases (
            attempt_id TEXT PRIMARY KEY, epoch INTEGER NOT NULL, worker TEXT NOT NULL,
            expires_at DOUBLE PRECISION NOT NULL, ordinal INTEGER NOT NULL
        )
        """,
        """
        CREATE TABLE steps (
            attempt_id TEXT NOT NULL, scope TEXT NOT NULL, seq INTEGER NOT NULL,
            epoch INTEGER NOT NULL, ordinal INTEGER NOT NULL, kind TEXT NOT NULL,
            digest TEXT NOT NULL, request {bytes} NOT NULL, result {bytes},
            cost_usd DOUBLE PRECISION, settled_nusd BIGINT,
            started_at DOUBLE PRECISION NOT NULL, duration_s DOUBLE PRECISION, tree TEXT,
            PRIMARY KEY (attempt_id, scope, seq)
        )
        """,
        """
        CREATE TABLE ledger (
            attempt_id TEXT NOT NULL, scope TEXT NOT NULL, seq INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'lost')),
            reserved_nusd BIGINT NOT NULL, billed_nusd BIGINT NOT NULL,
            PRIMARY KEY (attempt_id, scope, seq, epoch)
        )
        """,
        """
        CREATE TABLE totals (
            kind TEXT NOT NULL, name TEXT NOT NULL, nusd BIGINT NOT NULL,
            calls INTEGER NOT NULL,
            PRIMARY KEY (kind, name)
        )
        """,
    ),
    (
        """
        CREATE TABLE rates (
            name TEXT PRIMARY KEY, free_at DOUBLE PRECISION NOT NULL
        )
        """,
    ),
    ("ALTER TABLE attempts ADD COLUMN pruned_at DOUBLE PRECISION",),
    (
        "ALTER TABLE journal_version ADD COLUMN journal_id TEXT",
        "UPDATE journal_version SET journal_id = '{new_id}'",
        """
        CREATE TABLE claims (
            experiment TEXT PRIMARY KEY, lake_id TEXT NOT NULL, lake TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE signs (
            sign TEXT PRIMARY KEY, made_at DOUBLE PRECISION NOT NULL
        )
        """,
    ),
    (
        """
        CREATE TABLE queue (
            run TEXT NOT NULL, name TEXT NOT NULL, position INTEGER NOT NULL,
            holder TEXT NOT NULL, added_at DOUBLE PRECISION NOT NULL, ended_as TEXT,
            result TEXT, ended_at DOUBLE PRECISION,
            PRIMARY KEY (run, name)
        )
        """,
        "CREATE INDEX queue_open ON queue (run, position) WHERE ended_as IS NULL",
        "CREATE INDEX queue_ended ON queue (run, ended_at) WHERE ended_at IS NOT NULL",
    ),
    (
        "ALTER TABLE steps ADD COLUMN bench TEXT",
        """
        CREATE TABLE tenures (
            attempt_id TEXT NOT NULL, epoch INTEGER NOT NULL, worker TEXT NOT NULL,
            began_at DOUBLE PRECISION NOT NULL, ended_at DOUBLE PRECISION,
            PRIMARY KEY (attempt_id, epoch)
        )
        """,
    ),
    (
        "ALTER TABLE steps ADD COLUMN began_at_tree TEXT",
        "ALTER TABLE steps ADD COLUMN inputs TEXT",
        "ALTER TABLE attempts ADD COLUMN reuse TEXT",
    ),
    (
        """
        CREATE TABLE inbox (
            attempt_id TEXT NOT NULL, n INTEGER NOT NULL, message_id TEXT NOT NULL,
            kind TEXT NOT NULL, text TEXT NOT NULL, sender TEXT NOT NULL,
            sent_at DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (attempt_id, n),
            UNIQUE (attempt_id, message_id)
        )
        """,
        """
        CREATE TABLE waits (
            attempt_id TEXT PRIMARY KEY, wanted TEXT NOT NULL, about TEXT NOT NULL,
            after INTEGER NOT NULL, since DOUBLE PRECISION NOT NULL
        )
        """,
    ),
    (
        "ALTER TABLE ledger ADD COLUMN unpriced INTEGER NOT NULL DEFAULT 0",
        # An unknown ceiling was reserved as 0.
        """
        UPDATE ledger SET unpriced = 1
        WHERE billed_nusd = 0 AND (
            state <> 'settled' OR EXISTS (
                SELECT 1 FROM steps
                WHERE steps.attempt_id = ledger.attempt_id AND steps.scope = ledger.scope
                    AND steps.seq = ledger.seq AND steps.cost_usd IS NULL
            )
        )
        """,
    ),
    ("ALTER TABLE queue ADD COLUMN losses INTEGER NOT NULL DEFAULT 0",),
    (
        "ALTER TABLE leases ADD COLUMN retry TEXT",
        "ALTER TABLE leases ADD COLUMN retry_at DOUBLE PRECISION",
        "CREATE INDEX leases_retry ON leases (retry_at) WHERE retry_at IS NOT NULL",
    ),
)
"""Statements per version, the first version first.

`{bytes}` is the dialect's byte string type, and `{new_id}` is an id that no other journal has.
"""

BYTES = {"sqlite": "BLOB", "postgresql": "BYTEA"}


def migrate(connection: Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Upgrade the database to the newest version, within the caller's write transaction.

    Raises:
        JournalError: the database was written by a newer release.
    """
    if connection.dialect.name == "postgresql":  # on SQLite, a transaction that writes is alone
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
    if not inspect(connection).has_table(_VERSION):
        connection.execute(text("CREATE TABLE journal_version (version INTEGER NOT NULL)"))
        connection.execute(text("INSERT INTO journal_version VALUES (0)"))
    version: int = connection.execute(text("SELECT version FROM journal_version")).scalar_one()
    if version > len(migrations):
        raise JournalError(
            f"the journal has schema {version} and this release has {len(migrations)}: "
            "use the release that wrote it, or a newer one",
            retryable=False,
        )
    for statements in migrations[version:]:
        for statement in statements:
            filled = statement.format(bytes=BYTES[connection.dialect.name], new_id=uuid.uuid4().hex)
            connection.exec_driver_sql(filled)
    if version < len(migrations):
        connection.execute(
            text("UPDATE journal_version SET version = :version"), {"version": len(migrations)}
        )


def journal_id(connection: Connection) -> str | None:
    """Return the id of the journal in a database, or None without a journal or without an id.

    Changes nothing.
    """
    if not inspect(connection).has_table(_VERSION):
        return None
    columns = {column["name"] for column in inspect(connection).get_columns(_VERSION)}
    if "journal_id" not in columns:
        return None
    own_id: str | None = connection.execute(text(f"SELECT journal_id FROM {_VERSION}")).scalar()
    return own_id
