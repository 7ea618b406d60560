"""The project in a work tree, from its files alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agent.project.files import Files
from agent.project.node import node
from agent.project.others import go, make, rust
from agent.project.python import python
from agent.project.suites import Parts, Suite

Kind = Literal["python", "node", "go", "rust", "make"]

_DETECTORS: dict[Kind, Callable[[Files], Parts | None]] = {
    "python": python,
    "node": node,
    "go": go,
    "rust": rust,
    "make": make,
}


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


def detect(files: Files) -> Project | None:
    """Return the project in the root of a repository, or None if nothing is detected.

    Of several kinds, one with tests comes first, and then the one with the most source files. A
    makefile often only wraps the tools of another kind, so it counts if no other kind has tests.
    """
    projects = {
        kind: parts
        for kind, detect_kind in _DETECTORS.items()
        if (parts := detect_kind(files)) is not None
    }
    if not projects:
        return None

    def rank(kind: Kind) -> tuple[bool, bool, int]:
        sources = sum(path.endswith(projects[kind].suffixes) for path in files.paths)
        return projects[kind].tests is not None, kind != "make", sources

    kind = max(projects, key=rank)
    parts = projects[kind]
    why = ", ".join(parts.why) or f"files {parts.suffixes[0]}"
    return Project(kind, parts.install, parts.build, parts.tests, parts.lint, why)
