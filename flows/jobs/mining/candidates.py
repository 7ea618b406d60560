"""Merged changes with code and tests, from one pass over the history."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice
from pathlib import Path, PurePosixPath

from agent.testfiles import TestFiles
from eval import git

_MARK = "\x01"
_COMMIT = re.compile(rf"{_MARK}[0-9a-f]{{40,64}}")
_PROSE = {"", ".adoc", ".md", ".rst", ".txt"}
"""Suffixes of files that no test needs."""
_MOST_FILES = 200
"""A change of more is a release or a move, and no task."""
_LINK_TO_REPOSITORY = "160000"
"""Mode of a submodule, which no patch can carry."""


@dataclass(frozen=True)
class MergedChange:
    """The changes of a merge, or of a commit of the main line."""

    commit: str
    base: str
    """Its first parent."""
    date: str
    """When it was committed, in ISO 8601."""
    message: str
    files: tuple[tuple[str, str], ...]
    """Paths, each with git's letter for its change: A, M, D or T."""
    has_submodule: bool


@dataclass(frozen=True)
class TestedChange:
    """A change with code and tests."""

    change: MergedChange
    code: tuple[str, ...]
    tests: tuple[str, ...]
    """Everything that belongs to a test suite, with helpers and data."""
    collected: tuple[str, ...]
    """The test files that a runner collects after the change."""
    added_tests: tuple[str, ...]
    """Those of `tests` that are new."""


def read_changes(mirror: Path, since: date | None) -> Iterator[MergedChange]:
    """Yield the changes of the default branch along first parents, newest first.

    A merge is one change: everything that it brought. A squashed change is one commit.
    """
    output = git.git(
        mirror, "log", "--first-parent", "--diff-merges=first-parent", "--raw", "--no-renames",
        "-z", f"--format={_MARK}%H%x00%P%x00%cI%x00%B%x00", "HEAD", "--",
    )  # fmt: skip
    tokens = iter(output.split("\0"))
    token = next(tokens, None)
    while token is not None:
        if not _COMMIT.fullmatch(token.strip("\n")):
            token = next(tokens, None)
            continue
        parents, committed, message = islice(tokens, 3)
        files, has_submodule = [], False
        following = next(tokens, None)
        while following is not None and not _COMMIT.fullmatch(following.strip("\n")):
            if following.lstrip("\n").startswith(":"):
                modes, path = following.lstrip("\n:").split(" "), next(tokens)
                files.append((path, modes[4]))
                has_submodule |= _LINK_TO_REPOSITORY in modes[:2]
            following = next(tokens, None)
        # Git's own `--since` stops at the first older commit, and reads no year after 2099.
        is_recent = since is None or datetime.fromisoformat(committed).date() >= since
        if parents and is_recent:
            base = parents.split(" ")[0]
            commit = token.strip("\n").removeprefix(_MARK)
            yield MergedChange(commit, base, committed, message, tuple(files), has_submodule)
        token = following


def find_candidate(change: MergedChange, tests: TestFiles) -> TestedChange | None:
    """Return a change with its files sorted, or None if it can be no task."""
    if change.has_submodule or len(change.files) > _MOST_FILES:
        return None
    if any("�" in path for path, _ in change.files):  # no text can hold such a name
        return None
    own = tuple(path for path, _ in change.files if tests.owns(path))
    code = tuple(path for path, _ in change.files if not tests.owns(path))
    left = {path for path, letter in change.files if letter != "D"}
    added = {path for path, letter in change.files if letter == "A"}
    collected = tuple(path for path in own if path in left and tests.collects(path))
    if not collected or all(PurePosixPath(path).suffix.lower() in _PROSE for path in code):
        return None
    return TestedChange(change, code, own, collected, tuple(path for path in own if path in added))
