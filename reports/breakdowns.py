"""Types of breakdowns: instances by the arms that resolve them, and work by amount and kind."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from reports.estimates import Interval

Kind = Literal["repository", "difficulty"]

Amount = Literal["calls", "cost"]

Verdict = Literal["all", "resolved", "unresolved"]


@dataclass(frozen=True)
class InstanceOverlap:
    """One planned instance and the arms that resolve it at least once, without control arms."""

    instance_id: str
    repository: str | None
    """None if it is not known."""
    difficulty: str | None
    arms: Sequence[str]
    """The arms that plan it, in declared order."""
    resolving: Sequence[str]

    def of(self, arms: frozenset[str]) -> "InstanceOverlap":
        """Return the overlap of these arms."""
        if arms.issuperset(self.arms):
            return self
        planning, resolving = (
            [arm for arm in names if arm in arms] for names in (self.arms, self.resolving)
        )
        return replace(self, arms=planning, resolving=resolving)


class InstancesByArms(NamedTuple):
    """Instances by the number of arms that resolve them at least once."""

    union: list[InstanceOverlap]
    """Those that any arm resolves."""
    every: list[InstanceOverlap]
    one: list[InstanceOverlap]
    none: list[InstanceOverlap]


class Strip(NamedTuple):
    """One instance and repeat over many arms, each of which is a sign."""

    instance_id: str
    repeat: int
    resolved: int
    """Number of arms that resolved it."""
    signs: str
    """Signs of the arms' states, best arm first."""
    differs: bool
    """True if exactly one arm of the leading comparison resolved it."""


@dataclass(frozen=True)
class GroupRate:
    """One arm over the instances of one repository or difficulty."""

    arm: str
    kind: Kind
    name: str
    instances: int
    planned: int
    """Planned cells."""
    resolved: int
    """Resolved cells."""

    @property
    def rate(self) -> float:
        """Resolved share of the planned cells."""
        return self.resolved / self.planned


@dataclass(frozen=True)
class Chance:
    """A probability of success with k attempts, as a mean over instances."""

    value: float
    interval: Interval
    """95 % Wilson interval with each instance as one trial, which is conservative."""


@dataclass(frozen=True)
class Repeats:
    """The repeats of one arm's instances."""

    arm: str
    instances: int
    attempts: int
    """Planned attempts at an instance. The minimum if instances differ."""
    always: int
    """Instances that all attempts resolve."""
    flaky: int
    """Instances that some attempts resolve and others do not."""
    never: int
    """Instances that no attempt resolves."""
    pass_at: Mapping[int, Chance]
    """pass@k: the chance that at least one of k attempts resolves an instance."""
    pass_all: Mapping[int, Chance]
    """pass^k: the chance that all of k attempts resolve it."""

    @property
    def resolved(self) -> int:
        """Instances that at least one attempt resolves."""
        return self.always + self.flaky


@dataclass(frozen=True)
class Spread:
    """Distribution of one amount over the cells of one arm that ran, where it is fully known."""

    arm: str
    amount: Amount
    verdict: Verdict
    cells: int
    mean: float
    least: float
    lower_quartile: float
    median: float
    upper_quartile: float
    most: float


@dataclass(frozen=True)
class CostSpread:
    """The costs above 0 of one arm's cells, those included that are known only in part."""

    arm: str
    cells: int
    """Number of cells with a known cost."""
    least: float
    middle: float
    """The upper one of two medians."""
    most: float
    dots: tuple[float, ...]
    """All costs in the order of the cells or, of many, some of them evenly by rank."""


@dataclass(frozen=True)
class CallUse:
    """The calls of one arm in one role and phase, over the attempts that count."""

    arm: str
    role: str
    """Empty if the arm has one conversation."""
    phase: str
    """Scope without the numbers of its branches. Empty for the main line."""
    calls: int
    priced_calls: int
    cost_usd: float | None
    """Cost of the priced calls, or None if there are none."""
    input_tokens: int | None
    cache_read_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True)
class ToolUsage:
    """One arm's uses of one tool, over the attempts that count and have steps."""

    arm: str
    tool: str
    uses: int
    attempts: int
    """Attempts that used it."""


@dataclass(frozen=True)
class Breakdowns:
    """All breakdowns of a report. Arms are in declared order."""

    instances: tuple[InstanceOverlap, ...]
    groups: tuple[GroupRate, ...]
    repeats: tuple[Repeats, ...]
    spreads: tuple[Spread, ...]
    costs: tuple[CostSpread, ...]
    """Costs of the arms that have any above 0."""
    calls: tuple[CallUse, ...]
    tools: tuple[ToolUsage, ...]

    @cached_property
    def by_arms(self) -> InstancesByArms:
        """The instances by the number of arms that resolve them."""
        groups = InstancesByArms([], [], [], [])
        for instance in self.instances:
            resolving = len(instance.resolving)
            (groups.union if resolving else groups.none).append(instance)
            if resolving == 1:
                groups.one.append(instance)
            if 0 < resolving == len(instance.arms):
                groups.every.append(instance)
        return groups

    @cached_property
    def most_arms(self) -> int:
        """The largest number of arms that plan an instance."""
        return max(len(each.arms) for each in self.instances)

    def of(self, arms: Collection[str]) -> "Breakdowns":
        """Return the breakdowns of these arms."""
        names = frozenset(arms)
        return Breakdowns(
            instances=tuple(one.of(names) for one in self.instances),
            groups=tuple(one for one in self.groups if one.arm in arms),
            repeats=tuple(one for one in self.repeats if one.arm in arms),
            spreads=tuple(one for one in self.spreads if one.arm in arms),
            costs=tuple(one for one in self.costs if one.arm in arms),
            calls=tuple(one for one in self.calls if one.arm in arms),
            tools=tuple(one for one in self.tools if one.arm in arms),
        )

    def spread(self, arm: str, amount: Amount, verdict: Verdict) -> Spread | None:
        """Return one distribution, or None if no cell has the amount known."""
        wanted = (arm, amount, verdict)
        found = (each for each in self.spreads if (each.arm, each.amount, each.verdict) == wanted)
        return next(found, None)
