"""Files of a lake that can go: bodies that no step refers to, what killed writers left, and
everything of an experiment that its operator names.

What Prefect remembers of gradings stays, whatever becomes of their rows: `flows.grade` sees
that a row is gone and grades again, a second time too where that is wanted.
"""

import glob
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.journal import Journal
from agent.timings import timings
from flows.storage import lake as lakes
from flows.storage.journals import blobs
from flows.storage.lake import Lake
from reports.columns import TABLES
from reports.lake import matching

if TYPE_CHECKING:
    from upath import UPath

BATCH = 50
"""Bodies that go at a time, while nobody can take an attempt: seconds on the slowest storage."""

_UNFINISHED = re.compile(r"\.(.+\.|writable-)[0-9a-f]{32}")
"""A temporary name of `flows.storage.lake`."""

_UNFINISHED_BODY = re.compile(r"\.[a-z0-9_]{8}")
"""A temporary name of `agent.journal.blobs`."""

_FAILURE = re.compile(r"[0-9a-f]{32}")
"""How Prefect names the result of a task that failed, which nobody asks for."""

_ATTEMPT = re.compile(r"attempt-([0-9a-f]{32})[0-9a-f]*")
"""How it names that of an attempt."""


@dataclass(frozen=True)
class File:
    """A file that can go."""

    path: "Path | UPath"
    size_bytes: int
    written_at: float
    """Seconds since 1970."""


def unreferenced(lake: Lake, names: frozenset[str]) -> list[File]:
    """The bodies that are not among the names, young ones apart."""
    with lake.reading():
        found = matching(blobs(lake).root, "*/*")
        return _old(path for path in found if path.name not in names and path.name[0] != ".")


def unfinished(lake: Lake) -> list[File]:
    """What killed writers left, and results of Prefect that nobody will ask for."""
    filed = set(lake.units("attempts", "*"))

    def is_forgotten(name: str) -> bool:
        attempt = _ATTEMPT.fullmatch(name)
        return bool(_FAILURE.fullmatch(name)) or (attempt is not None and attempt[1] not in filed)

    with lake.reading():
        found = [path for path in matching(lake.results, "*") if is_forgotten(path.name)]
        if isinstance(lake.root, Path):  # an object store has nothing unfinished
            hidden = (
                (lake.root, "**/.*", _UNFINISHED),
                (blobs(lake).root, "*/.*", _UNFINISHED_BODY),
            )
            for folder, pattern, name in hidden:
                found += [path for path in folder.glob(pattern) if name.fullmatch(path.name)]
        return _old(found)


def of_experiment(lake: Lake, name: str) -> list[File]:
    """Everything of an experiment, its declaration last: until then it is known by its name."""
    escaped = glob.escape(name)
    written = [f"{kind}/{escaped}" for kind in ("reports", "exports")]
    patterns = [
        *(f"{folder}/{inside}" for folder in written for inside in ("*", "*/*")),
        *(f"{table}/experiment={escaped}/arm=*/*" for table in TABLES),
    ]
    with lake.reading():
        return _files(path for pattern in patterns for path in matching(lake.root, pattern))


def remove(files: Iterable[File]) -> None:
    """Remove files.

    Raises:
        InfrastructureError: the disk or the store refuses.
    """
    for file in files:
        lakes.remove(file.path)


def remove_with_folders(files: Iterable[File]) -> None:
    """Remove files, and their folders as far as they are empty then.

    Raises:
        InfrastructureError: the disk or the store refuses.
    """
    for file in files:
        remove([file])
        for folder in (file.path.parent, file.path.parent.parent):
            if isinstance(folder, Path):  # an object store has none
                with suppress(OSError):  # something else is in it
                    folder.rmdir()


def remove_bodies(files: list[File], journal: Journal, turns: int) -> Iterator[list[File]]:
    """Remove bodies that were unreferenced when `turns` was counted; those that are gone.

    Ends early when somebody takes an attempt: from then on, what is not referred to yet may be
    found here and taken for kept.
    """
    for start in range(0, len(files), BATCH):
        batch = files[start : start + BATCH]
        if not journal.retention.undisturbed(turns, partial(remove, batch)):
            return
        yield batch


def _old(paths: "Iterable[Path | UPath]") -> list[File]:
    youngest = time.time() - timings().prune_grace_s
    return [file for file in _files(paths) if file.written_at < youngest]


def _files(paths: "Iterable[Path | UPath]") -> list[File]:
    """Those of the paths that are files, and are there."""
    found = []
    for path in paths:
        with suppress(FileNotFoundError):
            state = path.stat()
            if stat.S_ISREG(state.st_mode):
                found.append(File(path, state.st_size, state.st_mtime))
    return found
