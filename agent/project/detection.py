"""The project in a work tree, from its files alone."""

import shlex
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from typing import Literal

from agent.project.node import node
from agent.project.others import go, make, rust
from agent.project.python import python
from agent.project.suites import SKIPPED, Files, Inner, Parts, Suite

Kind = Literal["python", "node", "go", "rust", "make"]

_DETECTORS: dict[Kind, Callable[[Files], Parts | None]] = {
    "python": python,
    "node": node,
    "go": go,
    "rust": rust,
    "make": make,
}

_MARKS: dict[Kind, str] = {"node": "package.json", "go": "go.mod", "rust": "Cargo.toml"}
"""Files that make a folder a project. The tests of Python in any folder run in the root."""
_SAMPLES = ("examples", "example", "fixtures", "testdata", "tests", "test", "templates")
"""Folders whose projects are data."""
_MOST_INNER = 5


@dataclass(frozen=True)
class Project:
    """A project, with the commands that its files show, or None and () otherwise."""

    kind: Kind
    install: str | None
    """Installs dependencies, with network."""
    build: str | None
    tests: Suite | None
    lint: tuple[str, ...]
    """Commands that lint or check types."""
    why: str
    """The files that decided."""
    others: tuple[Suite, ...] = ()
    """The tests of further projects: of other kinds, in the root or in folders."""


def detect(files: Files) -> Project | None:
    """Return the project in the root of a repository, or None if nothing is detected.

    Of several kinds, one with tests comes first, and then the one with the most source files. A
    makefile often only wraps the tools of another kind, so it counts if no other kind has tests.
    A kind that has no tests in the root may have projects in folders.
    """
    projects = {
        kind: parts
        for kind, detect_kind in _DETECTORS.items()
        if (parts := detect_kind(files)) is not None
    }
    tested = {kind for kind, parts in projects.items() if parts.tests}
    inner = [] if "make" in tested and len(tested) == 1 else list(_find_inner(files, tested))
    if not tested and inner:
        return replace(inner[0], others=tuple(each.tests for each in inner[1:] if each.tests))
    if not projects:
        return None

    def rank(kind: Kind) -> tuple[bool, bool, int]:
        sources = sum(path.endswith(projects[kind].suffixes) for path in files.paths)
        return projects[kind].tests is not None, kind != "make", sources

    kind = max(projects, key=rank)
    parts = projects[kind]
    why = ", ".join(parts.why) or f"files {parts.suffixes[0]}"
    suites = [projects[each].tests for each in sorted(tested - {kind, "make"})]
    others = tuple(filter(None, [*suites, *(each.tests for each in inner)]))
    return Project(kind, parts.install, parts.build, parts.tests, parts.lint, why, others)


def _find_inner(files: Files, tested: Set[Kind]) -> Iterator[Project]:
    """Yield the outermost projects in folders whose kinds have no tests in the root."""
    for kind, mark in _MARKS.items():
        if kind in tested:
            continue
        folders: list[str] = []
        for path in sorted(files.paths, key=lambda path: (path.count("/"), path)):
            folder, _, name = path.rpartition("/")
            parts = folder.split("/")
            if name != mark or not folder or {*SKIPPED, *_SAMPLES} & {*parts}:
                continue
            if any(f"{folder}/".startswith(f"{outer}/") for outer in folders):
                continue
            found = _DETECTORS[kind](Inner(files, folder))
            if found and found.tests and len(folders) < _MOST_INNER:
                folders.append(folder)
                yield _place(kind, found, folder)


def _place(kind: Kind, parts: Parts, folder: str) -> Project:
    """Return a project in a folder, whose commands run in the root."""
    assert parts.tests is not None, "it has tests"

    def inside(command: str) -> str:
        return f"cd {shlex.quote(folder)} && {command}"

    suite = replace(parts.tests, command=inside(parts.tests.command), folder=folder)
    install, build = (each and inside(each) for each in (parts.install, parts.build))
    why = ", ".join(f"{folder}/{name}" for name in parts.why)
    return Project(kind, install, build, suite, tuple(map(inside, parts.lint)), why)
