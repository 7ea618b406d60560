"""Instances by the lead of one arm over another."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class InstanceLeads:
    """The candidate's lead in resolved cells, instance by instance."""

    counts: Mapping[tuple[int, int], int]
    """Number of instances by their number of pairs of cells and by their lead, which is below 0 if
    the baseline resolves more of them."""

    @property
    def instances(self) -> int:
        """Number of all instances."""
        return sum(self.counts.values())

    @property
    def pairs(self) -> int:
        """Number of all pairs of cells."""
        return sum(pairs * instances for (pairs, _), instances in self.counts.items())

    @property
    def total(self) -> int:
        """Sum of all leads."""
        return sum(lead * instances for (_, lead), instances in self.counts.items())

    @property
    def differing(self) -> int:
        """Number of instances at which one arm resolves more cells than the other."""
        return sum(instances for (_, lead), instances in self.counts.items() if lead)

    @property
    def has_repeats(self) -> bool:
        """True if an instance has more than one pair of cells."""
        return any(pairs > 1 for pairs, _ in self.counts)

    @cached_property
    def sizes(self) -> Mapping[int, int]:
        """Number of instances by their number of pairs."""
        found: Counter[int] = Counter()
        for (pairs, _), instances in self.counts.items():
            found[pairs] += instances
        return found

    @cached_property
    def squared_sizes(self) -> int:
        """Sum of the squared numbers of pairs."""
        return sum(pairs**2 * instances for pairs, instances in self.sizes.items())

    @cached_property
    def carriers(self) -> float:
        """Number of instances that carry the sum of squared leads: all differing ones if their
        leads are of one size, and 1 if one instance has all of it."""
        second, fourth = (
            sum(lead**power * instances for (_, lead), instances in self.counts.items())
            for power in (2, 4)
        )
        return second**2 / fourth if fourth else 0.0

    def spread(self, difference: float) -> float:
        """Return the sum of squared leads about a difference per pair, a share."""
        return sum(
            (lead - pairs * difference) ** 2 * instances
            for (pairs, lead), instances in self.counts.items()
        )
