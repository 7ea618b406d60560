"""Names of tests as models write them, matched with the test files of the repository."""

from collections.abc import Iterable, Sequence
from posixpath import normpath

from agent.runners import TestRunner

MAX_FILES_OF_A_FOLDER = 40
"""A folder with more test files stands for the first of them, so that a run of tests ends."""


def known_test_files(
    named: Iterable[str], test_files: Sequence[str], runner: TestRunner
) -> tuple[str, ...]:
    """Return the test files that the names mean, in the order of the names, without duplicates.

    A name is a path in any spelling, an id such as `tests/test_io.py::test_load`, a folder, or
    the runner's own name of a file or of a test in it. Other names mean nothing. Files that the
    runner does not take are left out.
    """
    taken = [path for path in test_files if runner.runs(path)]
    labels = dict(zip(runner.names(taken), taken, strict=True))
    found: dict[str, None] = {}
    for name in named:
        found.update(dict.fromkeys(_meant(name.strip(), taken, labels)))
    return tuple(found)


def _meant(name: str, test_files: Sequence[str], labels: dict[str, str]) -> list[str]:
    path = normpath(name.partition("::")[0].strip() or "?")
    if path in test_files:
        return [path]
    inside = [file for file in test_files if path == "." or file.startswith(f"{path}/")]
    if inside:
        return inside[:MAX_FILES_OF_A_FOLDER]
    parts = name.split(".")
    dotted = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next(([labels[label]] for label in dotted if label in labels), [])
