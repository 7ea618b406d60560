"""Names that may hold the same value, or a part of it."""

from collections.abc import Collection, Iterable


class Aliases:
    """Groups of names: a change in place under one may reach the others."""

    def __init__(self) -> None:
        self._groups: dict[str, set[str]] = {}
        """By name, all names of its group."""

    def of(self, names: Iterable[str]) -> set[str]:
        """Return the names with all others of their groups."""
        return {each for name in names for each in (name, *self._groups.get(name, ()))}

    def join(self, name: str, others: Collection[str]) -> None:
        """Merge the groups of a name and of others, if there are others."""
        if others:
            group = self.of([name, *others])
            for each in group:
                self._groups[each] = group

    def forget(self, name: str) -> None:
        """Take a name out of its group, because it holds a new value."""
        self._groups.pop(name, set[str]()).discard(name)

    def copy(self) -> "Aliases":
        """Return a copy, which later changes of these groups do not affect."""
        twin = Aliases()
        twin.add(self)
        return twin

    def add(self, other: "Aliases") -> None:
        """Join the names that share a group elsewhere."""
        for name, group in other._groups.items():
            self.join(name, group)

    def count(self) -> int:
        """Return the number of pairs of names in one group. It grows with each merge."""
        return sum(map(len, self._groups.values()))
