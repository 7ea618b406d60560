"""URLs of journals."""

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from agent.errors import JournalError
from agent.journal.database import shown


def parse(url: str) -> URL:
    """Parse a database URL and set this package's driver, whichever driver the URL names.

    Raises:
        JournalError: the URL is invalid, or its database is neither SQLite nor PostgreSQL.
    """
    try:
        address = make_url(url)
    except ArgumentError as error:
        raise JournalError("the journal's URL is not one", retryable=False) from error
    backend = address.get_backend_name()
    if backend == "postgresql":
        return address.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise JournalError(
            f"the journal must be SQLite or PostgreSQL, not {backend}", retryable=False
        )
    if not address.database or address.database == ":memory:":
        raise JournalError("a journal in memory keeps nothing: name a file", retryable=False)
    return address.set(drivername="sqlite")


def place(url: str) -> str:
    """Return the location of a journal without secrets, in the form of the environment variable.

    Raises:
        JournalError: the URL is invalid.
    """
    return shown(parse(url))


def may_exist(address: URL) -> bool:
    """Return True if there may be a journal to connect to. This is decided without connecting."""
    return address.get_backend_name() != "sqlite" or Path(str(address.database)).is_file()


def is_missing(url: str) -> bool:
    """Return True if no journal can exist at a URL. This is decided without connecting.

    Raises:
        JournalError: the URL is invalid.
    """
    return not may_exist(parse(url))
