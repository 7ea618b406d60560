"""Migrations upgrade a database of any version to the newest one, exactly once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, inspect, text

from agent.errors import JournalError, OtherJournal
from agent.journal import Journal
from agent.journal.database import Database, parse_address, show_url
from agent.journal.migrations import MIGRATIONS, migrate
from tests.agent.journal.workers import attempt

LATER = (*MIGRATIONS, ("ALTER TABLE attempts ADD COLUMN note {bytes}", "CREATE TABLE new (a TEXT)"))


def version(url: str) -> int:
    """Return the schema version that the database records."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found: int = connection.execute(text("SELECT version FROM journal_version")).scalar_one()
    engine.dispose()
    return found


def test_a_journal_has_an_id_of_its_own_that_stays(url: str, journal: Journal) -> None:
    """A journal keeps its id, and looking the id up does not create a journal."""
    again = Journal.open(url, expected_id=journal.id)
    assert (again.id, Journal.id_at(url)) == (journal.id, journal.id)
    again.close()
    assert len(journal.id) == 32


def test_an_existing_journal_gets_an_id_once(url: str) -> None:
    """A journal of an earlier release gets one id, even if several workers open it at once."""
    database = Database(parse_address(url), 5.0)
    database.write(lambda connection: migrate(connection, MIGRATIONS[:3]))
    assert Journal.id_at(url) is None
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: Journal.open(url), range(4)))
    assert len({journal.id for journal in opened}) == 1
    for journal in opened:
        journal.close()
    database.close()


def test_another_journal_than_expected_is_left_as_it_is(url: str) -> None:
    """A journal other than the expected one is refused, and a missing one is not created."""
    assert Journal.id_at(url) is None
    with pytest.raises(OtherJournal) as nothing:
        Journal.open(url, expected_id="0" * 32)
    assert nothing.value.found is None
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":
        assert not Path(str(engine.url.database)).exists()
    else:
        assert inspect(engine).get_table_names() == []
    engine.dispose()
    made = Journal.open(url)
    with pytest.raises(OtherJournal) as other:
        Journal.open(url, expected_id="0" * 32)
    assert other.value.found == made.id
    made.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://user:secret@host:5432/name",
        "postgresql://host/name?user=user&password=secret&sslpassword=secret",
    ],
)
def test_the_shown_address_has_no_password(url: str) -> None:
    """A password is left out wherever the URL contains it."""
    told = show_url(url)
    assert told.startswith("postgresql://")
    assert "secret" not in told
    assert "host" in told


def test_an_older_database_is_upgraded(url: str, journal: Journal) -> None:
    """A later release adds its changes and keeps the existing data."""
    journal.start(attempt("a1"))
    database = Database(parse_address(url), 5.0)
    for _ in range(2):
        database.write(lambda connection: migrate(connection, LATER))
    database.close()
    assert version(url) == len(LATER)
    assert journal.attempt("a1") == attempt("a1")


def test_a_failed_migration_leaves_the_older_version(url: str, journal: Journal) -> None:
    """Migrations run in one transaction, so a failed one is rolled back completely."""
    database = Database(parse_address(url), 5.0)
    broken = (*LATER, ("CREATE TABLE newer (a TEXT)", "NO SUCH STATEMENT"))
    with pytest.raises(JournalError, match="syntax error"):
        database.write(lambda connection: migrate(connection, broken))
    assert version(url) == len(MIGRATIONS)
    database.write(lambda connection: migrate(connection, LATER))
    database.close()


@pytest.mark.usefixtures("journal")
def test_a_newer_database_is_refused(url: str) -> None:
    """An older release refuses a database that a newer one has upgraded."""
    database = Database(parse_address(url), 5.0)
    database.write(lambda connection: migrate(connection, LATER))
    database.close()
    newer, newest = len(LATER), len(MIGRATIONS)
    with pytest.raises(JournalError, match=f"has schema {newer} and this release has {newest}"):
        Journal.open(url)
    assert version(url) == newer


def test_bills_that_an_earlier_release_did_not_know_are_unknown(url: str) -> None:
    """It reserved 0 for an unknown price: only a known cost tells such a call from a free one."""
    database = Database(parse_address(url), 5.0)
    database.write(lambda connection: migrate(connection, MIGRATIONS[:8]))
    states = {0: "settled", 1: "settled", 2: "lost", 3: "reserved", 4: "lost"}
    nusd, costs = {1: 5, 4: 7}, {0: 0.0, 1: 5e-9}

    def fill(connection: Connection) -> None:
        connection.execute(text("INSERT INTO leases VALUES ('a1', 1, '', 0, 6)"))
        connection.execute(
            text(
                "INSERT INTO attempts (attempt_id, experiment, arm, instance_id, repeat, spec) "
                "VALUES ('a1', 'exp', 'mini', 'i', 0, '{}')"
            )
        )
        for seq in range(6):
            row = {"seq": seq, "state": states.get(seq, "settled"), "nusd": nusd.get(seq, 0)}
            connection.execute(
                text("INSERT INTO ledger VALUES ('a1', '', :seq, 1, :state, :nusd, :nusd)"), row
            )
            if row["state"] == "settled":
                step = {**row, "cost": costs.get(seq)}
                connection.execute(
                    text(
                        "INSERT INTO steps (attempt_id, scope, seq, epoch, ordinal, kind, digest, "
                        "request, cost_usd, settled_nusd, started_at) "
                        "VALUES ('a1', '', :seq, 1, :seq, 'model', 'd', '', :cost, :nusd, 0)"
                    ),
                    step,
                )

    database.write(fill)
    database.close()
    journal = Journal.open(url)
    [progress] = journal.progress("exp")
    assert (progress.billed_usd, progress.unbilled_calls) == (None, 3)
    assert (progress.unanswered_calls, progress.unanswered_usd) == (3, None)
    journal.close()
