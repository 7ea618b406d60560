"""Every test of the journal runs on SQLite and on a real PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.journal import Attempt, Journal, Lease
from tests.agent.journal.workers import attempt
from tests.servers.postgres import PostgresServer


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that is not there yet, or is empty."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'new' / 'journal.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database()


@pytest.fixture
def journal(url: str) -> Iterator[Journal]:
    """An empty journal."""
    opened = Journal.open(url)
    yield opened
    opened.close()


@pytest.fixture
def started(journal: Journal) -> Attempt:
    """An attempt in the journal."""
    one = attempt("a1")
    journal.start(one)
    return one


@pytest.fixture
def lease(journal: Journal, started: Attempt) -> Lease:
    """A lease on it that outlasts the test."""
    return journal.acquire(started.attempt_id, "first", 300)
