"""Tokens of an arm, as a type of a report."""

from dataclasses import dataclass

KINDS = ("input", "cache_read", "cache_write", "output", "reasoning")
"""Kinds of tokens, in the order in which they are shown."""


@dataclass(frozen=True)
class Tokens:
    """Sums over the attempts that count and have known tokens. None if none have."""

    input: int | None
    """Input tokens, including cached ones."""
    cache_read: int | None
    cache_write: int | None
    output: int | None
    """Output tokens, including reasoning."""
    reasoning: int | None
    unknown_cells: int = 0
    """Cells that ran with an unknown number of input or output tokens."""
    lower_bounds: frozenset[str] = frozenset()
    """Names of the sums that may be too low, because some cells with such tokens are unknown."""

    @property
    def is_lower_bound(self) -> bool:
        """True if the true `total` may be higher."""
        return self.unknown_cells > 0

    @property
    def sums(self) -> tuple[tuple[int | None, bool], ...]:
        """Each sum, in the order of the fields, and whether it is a lower bound."""
        return tuple((getattr(self, kind), kind in self.lower_bounds) for kind in KINDS)

    @property
    def total(self) -> int | None:
        """Input plus output."""
        return None if None in (self.input, self.output) else (self.input or 0) + (self.output or 0)
