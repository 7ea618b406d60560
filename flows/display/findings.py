"""Results of checks before a run."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """Result of one check."""

    level: Literal["ok", "note", "problem"]
    """A `note` does not prevent a run; a `problem` does."""
    what: str


def ok(what: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding("ok", what)


def note(what: str) -> Finding:
    """Return a finding that a run works in spite of."""
    return Finding("note", what)


def problem(what: str) -> Finding:
    """Return a finding that prevents a run."""
    return Finding("problem", what)
