"""The tests of a project, as a command with the format of its results, and its other commands."""

import os
import re
from collections.abc import Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

from agent.runners import Format, TestRunner, find_reporter, runner_of

MOST_TEXT = 1_000_000
"""Bytes of a file that detection reads."""

SKIPPED = frozenset({".git", ".hg", ".tox", ".venv", "node_modules", "target", "venv", "vendor"})
"""Folders of other projects and of build results."""


class Files(Protocol):
    """The files of a repository. Paths are relative to its root, with `/` between folders."""

    @property
    def paths(self) -> Set[str]: ...

    def text(self, path: str) -> str:
        """Return the text of a file, or '' if there is no such file."""
        ...


@dataclass(frozen=True)
class Inner:
    """The files of a folder of other files."""

    files: Files
    folder: str

    @cached_property
    def paths(self) -> Set[str]:
        head = f"{self.folder}/"
        return {p.removeprefix(head) for p in self.files.paths if p.startswith(head)}

    def text(self, path: str) -> str:
        return self.files.text(f"{self.folder}/{path}")


class Folder:
    """The files of a folder, without dependencies and build results."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def paths(self) -> Set[str]:
        paths: set[str] = set()
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if name not in SKIPPED]
            inner = Path(folder).relative_to(self._root)
            paths.update((inner / name).as_posix() for name in names)
        return paths

    def text(self, path: str) -> str:
        try:
            with (self._root / path).open("rb") as file:
                return file.read(MOST_TEXT).decode("utf-8", "replace")
        except OSError:
            return ""


Results = Literal["observed", "exit code"] | Format
"""The source of the results.

`observed`: the harness observes the runner, so that code under test cannot write results. `exit
code`: no single test is known. Otherwise the format of the runner's report.
"""

_NAMED = "command"
"""The name of a suite that a user named. Its command may choose tests, so it takes no others."""

_TAKE_FILES = ("go test", "cargo test")
"""Their detected commands are of the program itself. Scripts of packages may name tests already."""


_TEST_SCRIPT = re.compile(r"\b(?P<manager>npm|pnpm|yarn|bun) (?:run )?test\b")


@dataclass(frozen=True)
class Suite:
    """All tests of a project."""

    name: str
    """The test program, such as pytest."""
    command: str
    """A shell command that runs every test, in the root of the repository."""
    results: Results
    folder: str = ""
    """The folder of its project, '' for the root."""

    @property
    def runner(self) -> TestRunner:
        """The runner of single test files, or of all tests where the command takes no files."""
        if self.results == "observed":
            return self.observed if self.name != _NAMED else TestRunner(self.command)
        reporter = find_reporter(self.command)
        if reporter and reporter.name in _TAKE_FILES:
            return runner_of(f"{self.command.removesuffix(' ./...')} {{paths}}")
        return self.whole

    @property
    def observed(self) -> TestRunner:
        """The runner behind the command, with an observer if that program has one."""
        return runner_of(f"{self.command} {{paths}}")

    @property
    def whole(self) -> TestRunner:
        """The runner of all tests."""
        if self.results == "observed":
            return self.observed
        if self.results == "exit code":
            return TestRunner(self.command)
        return TestRunner(self.command, self.results, "none")


def custom(command: str, detected: Suite | None = None) -> Suite:
    """Return the suite of a command that a user named.

    A runner with an observer is observed. The test script of a package is the `detected` suite,
    which may have a report. Of any other command, only the exit code counts. This includes
    `python3`, because observers are started with `python`.
    """
    script = _TEST_SCRIPT.fullmatch(command.strip())
    if script and detected and not detected.folder:
        found = _TEST_SCRIPT.search(detected.command)
        if found and found["manager"] == script["manager"]:
            return detected
    suite = Suite(_NAMED, command, "observed")
    is_known = suite.observed.adapter != "summary" and "python3" not in command
    return suite if is_known else replace(suite, results="exit code")


@dataclass(frozen=True)
class Parts:
    """Commands of a project, and the files that led to them."""

    install: str | None
    """Installs dependencies, with network."""
    build: str | None
    tests: Suite | None
    lint: tuple[str, ...]
    why: list[str]
    suffixes: tuple[str, ...]
    """Suffixes of source files of this kind."""
