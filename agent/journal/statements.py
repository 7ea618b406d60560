"""Statements of the steps of an attempt, compiled once for each kind of database."""

import functools
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, CursorResult, Dialect
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.sql.elements import ClauseElement

_DIALECTS: Mapping[str, Dialect] = {
    "sqlite": sqlite.dialect(paramstyle="named"),
    "postgresql": psycopg.dialect(),  # type: ignore[no-untyped-call]
}


class Prepared:
    """A statement that goes to the driver as text.

    Otherwise SQLAlchemy takes as long for a statement of a step as SQLite does. Its parameters are
    all named, and no type needs a conversion.
    """

    def __init__(
        self, by_dialect: Mapping[str, ClauseElement], columns: tuple[str, ...] | None = None
    ) -> None:
        """Use `prepared`. `columns` are those of an insert."""
        self._by_dialect, self._columns = by_dialect, columns
        self._compiled = functools.cache(self._compile)

    def run(self, connection: Connection, values: Mapping[str, Any]) -> CursorResult[Any]:
        """Execute the statement with a value for each parameter without a constant one."""
        text, required, constants = self._compiled(connection.dialect.name)
        given = {name: values[name] for name in required}
        return connection.exec_driver_sql(text, given | constants)

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


def prepared(statement: ClauseElement, columns: tuple[str, ...] | None = None) -> Prepared:
    """Prepare a statement that is the same for each kind of database."""
    return Prepared(dict.fromkeys(_DIALECTS, statement), columns)
