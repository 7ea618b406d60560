"""Recognize what a path holds by its content, and read it.

Each kind of file has a separate reader in this package. A file that is none of them is a table.
"""

import json
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from flows.display.errors import UsageError
from flows.formats import swebench
from flows.formats.attempts import ReadFiles
from flows.formats.folders import walk
from flows.formats.harbor_files import is_trial
from reports.format import listing

TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".json")

_BEGINNING = 1_000_000
"""Bytes of a file that are looked at."""

_MOST_FILES = 100_000
"""Files of a folder that are looked at."""


def read(path: Path) -> ReadFiles:
    """Read the attempts of a file or a folder.

    Raises:
        UsageError: nothing that can be compared is there, or it cannot be used.
    """
    if not path.is_dir() and not path.is_file():
        raise UsageError(f"{path} is neither a file nor a folder")
    try:
        reader = _recognize_folder(path) if path.is_dir() else _recognize_file(path)
        return reader(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _recognize_folder(folder: Path) -> Callable[[Path], ReadFiles]:
    """Return the reader of a folder."""
    files = []
    for path in islice(_list_files(folder), _MOST_FILES):
        if path.name == "config.json" and is_trial(path):
            return _read_harbor  # a job has very many more files
        files.append(path)
    names = {path.name for path in files}
    if any(name.endswith(".traj.json") for name in names):
        return _read_mini
    if any(name.endswith(".eval") for name in names):
        return _read_inspect
    if "report.json" in names or names.intersection(swebench.SUBMITTED):
        return _read_swebench
    kinds = {_recognize_file(path) for path in files if path.suffix in TABLES}
    if _read_atif in kinds:
        return _read_atif
    if _read_inspect in kinds:
        return _read_inspect
    tables = [path for path in files if path.suffix in TABLES and path.parent == folder]
    if len(tables) == 1:
        reader = _recognize_file(tables[0])
        return lambda _: reader(tables[0])
    if tables:
        listed = listing([path.name for path in tables])
        raise UsageError(f"{folder} holds several tables ({listed}): name one of them")
    raise UsageError(
        f"{folder} holds no results that are known: name a job of Harbor, an output folder of "
        "mini-swe-agent, a submission of swebench, logs of Inspect, ATIF trajectories, or a table"
    )


def _recognize_file(path: Path) -> Callable[[Path], ReadFiles]:
    """Return the reader of a file."""
    if path.name.endswith(".traj.json"):
        return _read_mini
    if path.suffix == ".eval" or zipfile.is_zipfile(path):
        return _read_inspect
    if path.suffix not in TABLES:
        raise UsageError(f"{path} is not a file of results: name one of {', '.join(TABLES)}")
    if path.suffix not in (".json", ".jsonl"):
        return _read_table
    first = _read_beginning(path)
    if isinstance(first, dict):
        if str(first.get("schema_version", "")).startswith("ATIF"):
            return _read_atif
        if {"eval", "status"} <= first.keys():
            return _read_inspect
        if first.keys() & {"resolved_ids", "resolved"} and "instance_id" not in first:
            return _read_swebench
        if "model_patch" in first or any(_is_prediction(value) for value in first.values()):
            return _read_swebench
    return _read_table


def _list_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in order. No link is followed."""
    for parent, _, names in walk(folder):
        for path in (parent / name for name in names):
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def _read_beginning(path: Path) -> Any:
    """Return the first JSON value of a file, or the first row of a list; None if it is too long."""
    with path.open("rb") as file:
        text = file.read(_BEGINNING).decode("utf-8", "replace").lstrip("\ufeff \r\n\t[")
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return _read_keys(text)
    return value


def _read_keys(text: str) -> Any:
    """Return the keys at the beginning of an object that is too long to read."""
    keys = ("schema_version", "eval", "status", "resolved_ids", "instance_id", "model_patch")
    found = {key: "ATIF" if "ATIF-" in text[:2000] else "" for key in keys if f'"{key}"' in text}
    return found if text.startswith("{") else None


def _is_prediction(value: Any) -> bool:
    return isinstance(value, dict) and "model_patch" in value


def _read_harbor(path: Path) -> ReadFiles:
    from flows.formats import harbor

    return harbor.read([path], None, with_steps=False)


def _read_mini(path: Path) -> ReadFiles:
    from flows.formats import mini

    folder = path if path.is_dir() else path.parent
    files = mini.read(folder)
    report = swebench.find_report(folder)
    if report is None:
        return files
    find_verdict = swebench.read_verdicts(report)
    graded = []
    for attempt in files.attempts:
        if verdict := find_verdict(attempt.facts.instance_id):
            known = {"verdict": verdict.outcome, "reason": verdict.reason}
            attempt = replace(
                attempt, facts=attempt.facts.model_copy(update=known), tests=verdict.tests
            )
        graded.append(attempt)
    return replace(files, attempts=graded)


def _read_inspect(path: Path) -> ReadFiles:
    from flows.formats import inspect_import

    return inspect_import.read([path], None)


def _read_atif(path: Path) -> ReadFiles:
    from flows.formats import atif

    return atif.read([path])


def _read_swebench(path: Path) -> ReadFiles:
    return swebench.read(*swebench.find_submission(path), path.stem)


def _read_table(path: Path) -> ReadFiles:
    from flows.formats import table_attempts

    return table_attempts.read(path, {})
