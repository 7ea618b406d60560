"""Removable files of a lake: unreferenced payloads, leftovers of killed writers, whole experiments.

An experiment is only removed if the operator names it. Cached results of gradings are kept, even if
their rows are removed: `flows.cells.attempts` detects that a row is missing and grades again, twice
if an audit is requested.
"""

import glob
import re
import stat
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.journal import Journal
from agent.timings import timings
from flows.storage.job_names import job_of
from flows.storage.journals import blobs
from flows.storage.lake import Lake
from flows.storage.whole_files import remove as remove_file
from reports.columns import TABLES
from reports.compacted import FOLDER, PER_CELL
from reports.lake import matching

if TYPE_CHECKING:
    from upath import UPath

BATCH = 50
"""Payloads removed at a time while new leases are blocked: seconds on the slowest storage."""

_UNFINISHED = re.compile(r"\.(.+\.|writable-)[0-9a-f]{32}")
"""Pattern of the temporary names of `agent.stores` and `Lake.open`."""

_UNFINISHED_BODY = re.compile(r"\.[a-z0-9_]{8}")
"""Pattern of the temporary names of payloads up to release 0.1.0."""

_FAILURE = re.compile(r"[0-9a-f]{32}")
"""Prefect's name for the result of a failed task, which is never read again."""

_ATTEMPT = re.compile(r"attempt-([0-9a-f]{32})[0-9a-f]*")
"""Prefect's name for the result of an attempt."""


@dataclass(frozen=True)
class RemovableFile:
    """A removable file."""

    path: "Path | UPath"
    size_bytes: int
    written_at: float
    """Seconds since 1970."""


def find_unreferenced(lake: Lake, names: frozenset[str]) -> list[RemovableFile]:
    """Return the payloads that are not among the names, except recent ones."""
    with lake.reading():
        paths = matching(blobs(lake).root, "*/*")
        return _list_old(path for path in paths if path.name not in names and path.name[0] != ".")


def find_unfinished(lake: Lake) -> list[RemovableFile]:
    """Return leftovers of killed writers, and Prefect results that will never be read again."""
    attempts, paths = set(lake.units("attempts", "*")), []
    with lake.reading():
        for path in matching(lake.results, "*"):
            attempt = _ATTEMPT.fullmatch(path.name)
            if _FAILURE.fullmatch(path.name) or (attempt and attempt[1] not in attempts):
                paths.append(path)
        if isinstance(lake.root, Path):  # an object store has no unfinished files
            hidden = (
                (lake.root, "**/.*", _UNFINISHED),
                (blobs(lake).root, "*/.*", _UNFINISHED_BODY),
            )
            for folder, pattern, name in hidden:
                paths += [path for path in folder.glob(pattern) if name.fullmatch(path.name)]
        return _list_old(paths)


def of_experiment(lake: Lake, name: str) -> list[RemovableFile]:
    """Return all files of an experiment, its declaration last: without it the name is unknown."""
    escaped = glob.escape(name)
    folders = [f"{kind}/{escaped}" for kind in ("reports", "exports", "outputs")]
    patterns = [
        *(f"{folder}/{inside}" for folder in folders for inside in ("*", "*/*")),
        *(f"reports/{escaped}/compare/*/*/{inside}" for inside in ("*", "*/*")),
        *([f"jobs/{job_id}.parquet"] if (job_id := job_of(name)) else []),
        # Reports of earlier versions kept copies of rows.
        *(f".copies/{table}/experiment={escaped}.parquet" for table in TABLES),
        *(f"{table}/experiment={escaped}/arm=*/*" for table in TABLES),
        *(f"{table}/experiment={escaped}/arm=*/{FOLDER}/*" for table in PER_CELL),
    ]
    with lake.reading():
        return _list_files(path for pattern in patterns for path in matching(lake.root, pattern))


def find_old_reports(lake: Lake, before: float) -> dict[str, list[RemovableFile]]:
    """Return the files of reports that were last written before a time, by experiment.

    Without an experiment of the name, as in the history of a series, a report stays.
    """
    experiments, reports = set(lake.experiments()), defaultdict[str, list[RemovableFile]](list)
    with lake.reading():
        folder = lake.root / "reports"
        paths = [path for depth in range(1, 6) for path in matching(folder, "*/" * depth + "*")]
        for file in _list_files(paths):
            name = str(file.path).removeprefix(f"{folder}/").partition("/")[0]
            if name in experiments:
                reports[name].append(file)
    return {
        name: files
        for name, files in reports.items()
        if max(file.written_at for file in files) < before
    }


def remove(files: Iterable[RemovableFile]) -> None:
    """Remove files.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    for file in files:
        remove_file(file.path)


def remove_with_folders(files: Iterable[RemovableFile]) -> None:
    """Remove files, and their folders if they are empty afterwards.

    Raises:
        InfrastructureError: a disk or object-store operation failed.
    """
    for file in files:
        remove([file])
        for folder in list(file.path.parents)[:3]:
            if isinstance(folder, Path):  # an object store has no folders
                with suppress(OSError):  # the folder is not empty
                    folder.rmdir()


def remove_bodies(
    files: list[RemovableFile], journal: Journal, turns: int
) -> Iterator[list[RemovableFile]]:
    """Remove payloads that were unreferenced when `turns` was read. Yield the removed files.

    Stop when an attempt is acquired: from then on, a worker can rely on an unreferenced payload
    that it finds in storage.
    """
    for start in range(0, len(files), BATCH):
        batch = files[start : start + BATCH]
        if not journal.retention.run_undisturbed(turns, partial(remove, batch)):
            return
        yield batch


def _list_old(paths: "Iterable[Path | UPath]") -> list[RemovableFile]:
    youngest = time.time() - timings().prune_grace_s
    return [file for file in _list_files(paths) if file.written_at < youngest]


def _list_files(paths: "Iterable[Path | UPath]") -> list[RemovableFile]:
    """Return the paths that are existing regular files."""
    files = []
    for path in paths:
        with suppress(FileNotFoundError):
            state = path.stat()
            if stat.S_ISREG(state.st_mode):
                files.append(RemovableFile(path, state.st_size, state.st_mtime))
    return files
