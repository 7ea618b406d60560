"""Statements of the steps of an attempt, compiled once for each kind of database."""

import functools
import sqlite3
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import ClauseElement

from agent.journal.commits import driver

_DIALECTS: Mapping[str, Dialect] = {
    "sqlite": sqlite.dialect(paramstyle="named"),
    "postgresql": psycopg.dialect(),  # type: ignore[no-untyped-call]
}


class PreparedStatement:
    """A statement that goes to the driver as text.

    Otherwise SQLAlchemy takes longer for a statement of a step than SQLite does. Its parameters are
    all named, and no type needs a conversion.
    """

    def __init__(
        self, by_dialect: Mapping[str, ClauseElement], columns: tuple[str, ...] | None = None
    ) -> None:
        """Use `prepared`. `columns` are those of an insert."""
        self._by_dialect, self._columns = by_dialect, columns
        self._compiled = functools.cache(self._compile)
        self._row: Any = None

    def run(self, connection: Connection, values: Mapping[str, Any]) -> Any:
        """Execute the statement with a value for each parameter without a constant one.

        Return the driver's cursor. Its rows have names.

        Raises:
            DBAPIError: as SQLAlchemy's own methods.
        """
        text, required, constants = self._compiled(connection.dialect.name)
        given = {name: values[name] for name in required} | constants
        cursor = self._cursor(connection)
        try:
            cursor.execute(text, given)
        except connection.dialect.loaded_dbapi.Error as error:
            raise _as_sqlalchemy(error, connection, text, cursor) from error
        return cursor

    def _compile(self, dialect: str) -> tuple[str, list[str], dict[str, Any]]:
        """Return the text, the names of the parameters to be given, and the other parameters."""
        compiled = self._by_dialect[dialect].compile(
            dialect=_DIALECTS[dialect],
            column_keys=None if self._columns is None else list(self._columns),
        )
        names = compiled.bind_names.items()  # type: ignore[attr-defined]  # of an SQLCompiler
        required = [name for parameter, name in names if parameter.required]
        constants = {name: parameter.value for parameter, name in names if not parameter.required}
        return str(compiled), required, constants

    def _cursor(self, connection: Connection) -> Any:
        """Return a new cursor of the driver whose rows have names."""
        own = driver(connection)
        if connection.dialect.name == "postgresql":
            from psycopg.rows import namedtuple_row

            return own.cursor(row_factory=namedtuple_row)
        cursor = own.cursor()
        cursor.row_factory = self._named
        return cursor

    def _named(self, cursor: sqlite3.Cursor, row: Sequence[Any]) -> Any:
        if self._row is None:
            self._row = namedtuple("Row", [column[0] for column in cursor.description])  # type: ignore[misc]
        return self._row._make(row)


def prepared(statement: ClauseElement, columns: tuple[str, ...] | None = None) -> PreparedStatement:
    """Prepare a statement that is the same for each kind of database."""
    return PreparedStatement(dict.fromkeys(_DIALECTS, statement), columns)


def _as_sqlalchemy(error: Any, connection: Connection, text: str, cursor: Any) -> Exception:
    """Return the error as SQLAlchemy would raise it. After a loss, all connections are opened anew.

    Those in the pool are older than the loss.
    """
    dialect = connection.dialect
    lost = dialect.is_disconnect(error, connection.connection, cursor)
    if lost:
        connection.engine.dispose()
        connection.invalidate(error)
    base = dialect.loaded_dbapi.Error
    raised: Exception = DBAPIError.instance(
        text, None, error, base, connection_invalidated=lost, dialect=dialect
    )
    return raised
