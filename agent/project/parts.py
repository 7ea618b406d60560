"""The parts of a project of one kind, before the kinds are compared."""

from dataclasses import dataclass

from agent.project.suites import Suite


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
