"""Homes of Prefect that are made once per test run and copied, since a new database is expensive.

Prefect's migrations take 7 s of processor time, `durabench setup` and `prefect deploy --all` 11 s.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from filelock import FileLock

VARIABLE = "DURABENCH_TEST_HOMES"
"""The folder of the homes, for all processes of a test run."""


@contextmanager
def shared_homes() -> Iterator[None]:
    """Let the processes of a test run share homes during the block. Remove the homes afterwards."""
    with tempfile.TemporaryDirectory(prefix="durabench-homes-") as folder:
        os.environ[VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[VARIABLE]


def copy_home(name: str, make: Callable[[Path], None], to: Path) -> None:
    """Copy the home of that name. The first caller makes it with `make`, which gets a folder.

    Outside a test run nothing is shared, and every home is a new one.
    """
    if not (shared := os.environ.get(VARIABLE)):
        make(to)
        return
    made = Path(shared) / name
    with FileLock(f"{made}.lock"):
        if not made.exists():
            unfinished = made.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(made)
    shutil.copytree(made, to)


def migrated(home: Path) -> None:
    """Make a home with an empty, migrated database."""
    subprocess.run(
        [str(Path(sys.executable).with_name("prefect")), "server", "database", "upgrade", "--yes"],
        env={**os.environ, "PREFECT_HOME": str(home), "PREFECT_API_URL": ""},
        check=True,
        capture_output=True,
    )
    merge_log(home)


def merge_log(home: Path) -> None:
    """Move the write-ahead log into the database, which no program has open."""
    with closing(sqlite3.connect(home / "prefect.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
