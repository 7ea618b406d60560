"""Which journal a lake goes with: `DURABENCH_DATABASE_URL`, or SQLite beside the tables.

A lake on an object store can only have the first: SQLite needs a disk.
"""

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from agent.blobs import Blobs
from agent.journal import Journal
from flows.errors import UsageError
from flows.lake import Lake

if TYPE_CHECKING:
    from upath import UPath

VARIABLE = "DURABENCH_DATABASE_URL"
_FILE = "journal.sqlite"


def journal_url(lake: Lake) -> str:
    """Where the journal of a lake is, as SQLAlchemy takes it.

    Raises:
        UsageError: the lake is on an object store, and nothing says where its journal is.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return given
    if not isinstance(lake.root, Path):
        raise UsageError(
            f"the lake {lake.root} is on an object store, which cannot hold the journal: set "
            f"{VARIABLE}=postgresql://… (or sqlite:////folder/journal.sqlite, for one machine)"
        )
    return f"sqlite:///{lake.root / _FILE}"


def open_journal(lake: Lake) -> Journal:
    """The journal of a lake, opened once per process.

    Raises:
        UsageError: nothing says where it is.
        JournalError: it cannot be opened; the message says why.
    """
    return _open(journal_url(lake), lake.root)


def existing_journal(lake: Lake) -> Journal | None:
    """The journal of a lake that somebody has run in; None if nobody has, or none is known."""
    is_there = os.environ.get(VARIABLE) or (
        isinstance(lake.root, Path) and (lake.root / _FILE).is_file()
    )
    return open_journal(lake) if is_there else None


def blobs(lake: Lake) -> Blobs:
    """Where large bodies and work trees of a lake's attempts are kept, by their content."""
    return Blobs(lake.root / "blobs")


@functools.cache
def _open(url: str, root: "Path | UPath") -> Journal:
    return Journal.open(url, blobs=Blobs(root / "blobs"))
