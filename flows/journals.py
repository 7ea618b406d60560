"""Which journal a lake goes with: `DURABENCH_DATABASE_URL`, or SQLite beside the tables."""

import functools
import os
from pathlib import Path

from agent.blobs import Blobs
from agent.journal import Journal
from flows.lake import Lake

VARIABLE = "DURABENCH_DATABASE_URL"
_FILE = "journal.sqlite"


def open_journal(lake: Lake) -> Journal:
    """The journal of a lake, opened once per process.

    Raises:
        JournalError: it cannot be opened; the message says why.
    """
    return _open(os.environ.get(VARIABLE) or f"sqlite:///{lake.root / _FILE}", lake.root)


def existing_journal(lake: Lake) -> Journal | None:
    """The journal of a lake that somebody has run in; None if nobody has."""
    is_there = VARIABLE in os.environ or (lake.root / _FILE).is_file()
    return open_journal(lake) if is_there else None


def blobs(lake: Lake) -> Blobs:
    """Where large bodies and work trees of a lake's attempts are kept, by their content."""
    return Blobs(lake.root / "blobs")


@functools.cache
def _open(url: str, root: Path) -> Journal:
    return Journal.open(url, blobs=Blobs(root / "blobs"))
