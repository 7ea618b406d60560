"""Fixtures: throw-away keys, and an empty journal on SQLite and on a real PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.journal import Journal
from tests.servers.postgres import PostgresServer

KEY = "throw-away"
"""The key of each provider."""


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in ("OPENAI", "ANTHROPIC", "DEEPSEEK", "GEMINI"):
        monkeypatch.setenv(f"{provider}_API_KEY", KEY)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database that does not exist yet or is empty."""
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
