"""Result of one check of `durabench doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Result of one check."""

    level: str
    """ok, note (works without) or problem (a run cannot work)."""
    what: str
