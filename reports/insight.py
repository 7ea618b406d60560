"""Dependencies between the steps of an attempt, and its diagnosis, both from the journal."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GraphStep:
    """One step of a graph."""

    place: str
    """Scope and number, as `durabench trace` shows them."""
    state: str
    """pending, executed, stale or failed."""
    label: str
    uses: tuple[str, ...]
    """Places of the earlier steps whose results it used."""


@dataclass(frozen=True)
class DiagnosisPart:
    """One part of a diagnosis."""

    title: str
    lines: tuple[str, ...]
    steps: tuple[str, ...] = ()
    """Places of the steps that it is about."""
    command: str = ""
    """A command to run next."""


@dataclass(frozen=True)
class Insight:
    """The graph of one attempt, and the findings about its failure."""

    graph: tuple[GraphStep, ...]
    findings: tuple[DiagnosisPart, ...]
    """Empty for a resolved attempt."""
