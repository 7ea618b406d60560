"""The journal's tables as used by its queries, and statements; `migrations` creates the tables.

Money is counted in whole billionths of a dollar, so that sums are exact and a limit holds to the
last digit. `totals` repeats the sums of the ledger, so that a reservation costs the same however
long the experiment is. Both change in one transaction.
"""

import functools
import sqlite3
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Dialect,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.sql.elements import ClauseElement

from agent.journal.database import driver

metadata = MetaData()

attempts = Table(
    "attempts",
    metadata,
    Column("attempt_id", Text, primary_key=True),
    Column("experiment", Text, nullable=False),
    Column("arm", Text, nullable=False),
    Column("instance_id", Text, nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("spec", Text, nullable=False),
    Column("parent_id", Text),
    Column("fork_scope", Text),
    Column("fork_seq", Integer),
    Column("outcome", Text),
    Column("pruned_at", Double),  # seconds since 1970; NULL: steps not removed
    Column("reuse", Text),  # how a fork uses its parent's steps; NULL: as a prefix
)

leases = Table(
    "leases",
    metadata,
    Column("attempt_id", Text, primary_key=True),
    Column("epoch", Integer, nullable=False),  # 0: never held
    Column("worker", Text, nullable=False),
    Column("expires_at", Double, nullable=False),  # seconds since 1970
    Column("ordinal", Integer, nullable=False),  # of the step begun last
)

steps = Table(
    "steps",
    metadata,
    Column("attempt_id", Text, primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("epoch", Integer, nullable=False),  # 0: copied by a fork
    Column("ordinal", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("request", LargeBinary, nullable=False),  # packed, see `bodies`
    Column("result", LargeBinary),  # packed; NULL: an intent
    Column("cost_usd", Double),  # NULL: unknown
    Column("settled_nusd", BigInteger),  # NULL: not a call
    Column("started_at", Double, nullable=False),  # seconds since 1970
    Column("duration_s", Double),
    Column("tree", Text),
    Column("bench", Text),  # branch in whose workspace it worked; NULL: in none, or unknown
    Column("began_at_tree", Text),  # NULL: a journal of old
    Column("inputs", Text),  # digest of what else decides the result; NULL: unknown
)

tenures = Table(
    "tenures",
    metadata,
    Column("attempt_id", Text, primary_key=True),
    Column("epoch", Integer, primary_key=True),
    Column("worker", Text, nullable=False),
    Column("began_at", Double, nullable=False),  # seconds since 1970
    Column("ended_at", Double),  # NULL: not given back
)

ledger = Table(
    "ledger",
    metadata,
    Column("attempt_id", Text, primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("epoch", Integer, primary_key=True),
    Column("state", Text, nullable=False),  # reserved, settled or lost
    Column("reserved_nusd", BigInteger, nullable=False),
    Column("billed_nusd", BigInteger, nullable=False),  # the reservation until it is settled
    Column("unpriced", Integer, nullable=False),  # 1: nothing is known of its bill
)

claims = Table(
    "claims",
    metadata,
    Column("experiment", Text, primary_key=True),
    Column("lake_id", Text, nullable=False),
    Column("lake", Text, nullable=False),  # its location at that time, for display
)

signs = Table(
    "signs",
    metadata,
    Column("sign", Text, primary_key=True),
    Column("made_at", Double, nullable=False),  # seconds since 1970
)

rates = Table(
    "rates",
    metadata,
    Column("name", Text, primary_key=True),
    Column("free_at", Double, nullable=False),  # seconds since 1970
)

totals = Table(
    "totals",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("nusd", BigInteger, nullable=False),
    Column("calls", Integer, nullable=False),
)

queue = Table(
    "queue",
    metadata,
    Column("run", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("holder", Text, nullable=False),  # name of a lease; empty: free
    Column("added_at", Double, nullable=False),  # seconds since 1970
    Column("ended_as", Text),  # NULL: open
    Column("result", Text),
    Column("ended_at", Double),
    Column("losses", Integer, nullable=False, server_default="0"),  # holders that died
)

inbox = Table(
    "inbox",
    metadata,
    Column("attempt_id", Text, primary_key=True),
    Column("n", Integer, primary_key=True),  # from 1 on, in the order of sending
    Column("message_id", Text, nullable=False),  # unique within the attempt
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("sender", Text, nullable=False),
    Column("sent_at", Double, nullable=False),  # seconds since 1970
)

waits = Table(
    "waits",
    metadata,
    Column("attempt_id", Text, primary_key=True),
    Column("wanted", Text, nullable=False),  # message or approval
    Column("about", Text, nullable=False),
    Column("after", Integer, nullable=False),  # the last message that was read before
    Column("since", Double, nullable=False),  # seconds since 1970
)

_DIALECTS: Mapping[str, Dialect] = {
    "sqlite": sqlite.dialect(paramstyle="named"),
    "postgresql": psycopg.dialect(),  # type: ignore[no-untyped-call]
}


class PreparedStatement:
    """A statement that is compiled once for each kind of database.

    It goes to the driver as text, because SQLAlchemy takes longer for a statement of a step than
    SQLite does. All of its parameters are named, and no type needs a conversion.
    """

    def __init__(
        self,
        statement: ClauseElement | Mapping[str, ClauseElement],
        columns: Sequence[str] | None = None,
    ) -> None:
        """Use one statement, or one for each dialect. `columns` are those of an insert."""
        self._statement, self._columns = statement, columns
        self._compiled = functools.cache(self._compile)
        self._row: Any = None

    def run(self, connection: Connection, values: Mapping[str, Any]) -> Any:
        """Execute the statement with a value for each parameter without a constant one.

        Return a cursor whose rows have names.
        """
        text, required, constants = self._compiled(connection.dialect.name)
        given = constants | {name: values[name] for name in required}
        if connection.dialect.name != "sqlite":
            return connection.exec_driver_sql(text, given)
        cursor = driver(connection).cursor()
        cursor.row_factory = self._name_columns
        return cursor.execute(text, given)

    def _name_columns(self, cursor: sqlite3.Cursor, row: Sequence[Any]) -> Any:
        if self._row is None:
            self._row = namedtuple("Row", [column[0] for column in cursor.description])  # type: ignore[misc]
        return self._row._make(row)

    def _compile(self, dialect: str) -> tuple[str, list[str], dict[str, Any]]:
        """Return the text, the names of the parameters to be given, and the other parameters."""
        by_dialect = self._statement
        statement = by_dialect[dialect] if isinstance(by_dialect, Mapping) else by_dialect
        compiled = statement.compile(dialect=_DIALECTS[dialect], column_keys=self._columns)
        parameters = compiled.bind_names  # type: ignore[attr-defined]  # of an SQLCompiler
        required = [name for each, name in parameters.items() if each.required]
        constants = {name: each.value for each, name in parameters.items() if not each.required}
        return str(compiled), required, constants
