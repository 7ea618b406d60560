"""Statements that are compiled once go to the driver as text."""

from collections.abc import Iterator

import pytest
from sqlalchemy import URL, Column, Connection, Integer, MetaData, Table, insert, make_url, select
from sqlalchemy.exc import DBAPIError

from agent.journal.database import DATABASE_ERRORS, Database, transaction
from agent.journal.tables import PreparedStatement
from tests.servers.postgres import PostgresServer

NUMBERS = Table("numbers", MetaData(), Column("number", Integer, primary_key=True))
ADD = PreparedStatement(insert(NUMBERS), ("number",))
ALL = PreparedStatement(select(NUMBERS.c.number).order_by(NUMBERS.c.number))


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    if request.param == "sqlite":
        url = URL.create("sqlite", database=str(request.getfixturevalue("tmp_path") / "n.sqlite"))
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = make_url(server.create_database()).set(drivername="postgresql+psycopg")
    made = Database(url, patience_s=5.0)
    made.write(NUMBERS.create)
    yield made
    made.close()


def add(*numbers: int, connection: Connection) -> None:
    for number in numbers:
        ADD.run(connection, {"number": number})


def numbers(database: Database) -> list[int]:
    return database.read(lambda connection: [row.number for row in ALL.run(connection, {})])


def test_rows_have_names(database: Database) -> None:
    database.write(lambda connection: add(2, 1, connection=connection))
    assert numbers(database) == [1, 2]


def test_an_error_undoes_the_transaction(database: Database) -> None:
    with pytest.raises(DATABASE_ERRORS):
        transaction(database._engine, lambda connection: add(1, 1, connection=connection))
    assert numbers(database) == []


def test_a_lost_connection_is_known_as_lost(postgres: PostgresServer) -> None:
    """It leaves the pool with those that were opened before."""
    url = make_url(postgres.create_database()).set(drivername="postgresql+psycopg")
    database = Database(url, patience_s=5.0)
    database.write(NUMBERS.create)

    def cut_off(connection: Connection) -> None:
        add(1, connection=connection)
        postgres.restart(away_s=0.1, mode="fast")
        add(2, connection=connection)

    with pytest.raises(DBAPIError) as raised:
        transaction(database._engine, cut_off)
    assert raised.value.connection_invalidated
    transaction(database._engine, lambda connection: add(3, connection=connection))
    assert numbers(database) == [3]
    database.close()
