"""Which instances are resolved, and by how many arms?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.estimates import Interval
from reports.format import DASH, count, percent, percents, plural
from reports.relations import read_rows
from reports.rendering.sections import Section, Table
from reports.statistics.proportions import wilson_interval
from reports.statistics.repeats import pass_all_k, pass_at_k
from reports.types import Report
from reports.wording import MANY_ARMS, rank_arms

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

QUESTION = "Which instances are resolved, and by how many arms?"

EXAMPLES = 4
"""Maximum number of instances that a row names."""

GROUPS = 40
"""Maximum number of repositories or difficulties as rows. The smallest are left out."""

GROUPS_ACROSS = 12
"""Maximum number of repositories or difficulties as columns."""

DEPTHS = (1, 2, 3, 4, 5, 8, 10, 16, 20, 32, 50, 100)
"""Numbers of attempts for which chances are shown."""

_INSTANCES = """
    select
        instance_id,
        list_filter(arms, lambda arm: list_contains($arms, arm)),
        list_filter(resolving, lambda arm: list_contains($arms, arm))
    from marts.instances
    order by instance_id
"""

Texts = tuple[str, ...]


class InstanceOverlap(NamedTuple):
    """One planned instance, without control arms."""

    instance_id: str
    arms: Sequence[str]
    """The arms that plan it, in declared order."""
    resolving: Sequence[str]
    """Those that resolve it at least once."""


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


def answer(connection: DuckDBPyConnection, report: Report) -> Section:
    """Return instances by resolving arms, rates by repository and difficulty, and chances."""
    if not any(arm.started for arm in report.arms):
        return Section("instances", QUESTION, "Nothing has run yet.")
    names = [arm.name for arm in report.arms]
    instances = read_instances(connection, names)
    found = {each.arm: each for each in read_repeats(connection)}
    repeats = [found[arm.name] for arm in rank_arms(report)]
    arms = max(len(each.arms) for each in instances)
    union = [each for each in instances if each.resolving]
    parts = (
        union,
        [each for each in union if len(each.resolving) == len(each.arms)],
        [each for each in union if len(each.resolving) == 1],
        [each for each in instances if not each.resolving],
    )
    rates = [row for row in read_rows(connection, "from marts.groups") if row["arm"] in names]
    return Section(
        "instances",
        QUESTION,
        _summarise(report, instances, arms, parts),
        (
            *(_overlaps(report, instances, arms, parts, found) if arms > 1 else ()),
            *_by_group(report, rates, "repository"),
            *_by_group(report, rates, "difficulty"),
            *_repeats([each for each in repeats if each.attempts > 1]),
        ),
        (*_FOOTNOTES, *((_OF_CHANCES,) if any(each.attempts > 1 for each in repeats) else ())),
    )


def read_instances(connection: DuckDBPyConnection, arms: Sequence[str]) -> list[InstanceOverlap]:
    """Read all planned instances with those of these arms that plan and that resolve them."""
    rows = connection.execute(_INSTANCES, {"arms": list(arms)}).fetchall()
    return [InstanceOverlap._make(row) for row in rows]


def _summarise(
    report: Report,
    instances: Sequence[InstanceOverlap],
    arms: int,
    parts: Sequence[Sequence[InstanceOverlap]],
) -> str:
    total = plural(len(instances), "instance")
    if arms < 2:
        resolved = sum(len(each.resolving) for each in instances)
        once = " at least once." if report.source.repeats > 1 else "."
        return f"The only arm resolves {count(resolved)} of {total}{once}"
    union, every, one, none = map(len, parts)
    return (
        f"{count(union)} of {total} ({percent(union / len(instances))}) are resolved by at least "
        f"one of {arms} arms: {count(every)} by every arm and {count(one)} by exactly one. "
        f"{count(none)} are resolved by none."
    )


def _overlaps(
    report: Report,
    instances: Sequence[InstanceOverlap],
    arms: int,
    parts: Sequence[Sequence[InstanceOverlap]],
    repeats: Mapping[str, Repeats],
) -> Iterator[Table]:
    names = (
        *("at least one arm (oracle union)", f"every arm ({arms})"),
        *("exactly one arm", "no arm"),
    )
    rows = tuple(_overlap(*each, len(instances)) for each in zip(names, parts, strict=True))
    header: Texts = ("resolved by", "instances", "share", "95 % interval", "for example")
    yield Table("Instances by the arms that resolve them", header, rows, remarks=1)
    alone: defaultdict[str, list[InstanceOverlap]] = defaultdict(list)
    for instance in parts[2]:
        alone[instance.resolving[0]].append(instance)
    own = tuple(
        (
            arm.name,
            count(repeats[arm.name].resolved),
            count(len(alone[arm.name])),
            count(len(parts[0]) - repeats[arm.name].resolved),
            _examples(alone[arm.name]),
        )
        for arm in rank_arms(report)
        if not arm.is_control
    )
    header = ("arm", "resolved", "only by it", "missed by it", "only by it, for example")
    yield Table("Instances of each arm", header, own, remarks=1)


def _overlap(name: str, found: Sequence[InstanceOverlap], instances: int) -> Texts:
    return (
        name,
        count(len(found)),
        percent(len(found) / instances),
        percents(wilson_interval(len(found), instances)),
        _examples(found) if len(found) < instances else "",
    )


def _examples(found: Sequence[InstanceOverlap]) -> str:
    return ", ".join(each.instance_id for each in found[:EXAMPLES])


def _by_group(report: Report, rates: Sequence[Mapping[str, Any]], kind: str) -> Iterator[Table]:
    """Yield rates by repository or difficulty if there are several of them."""
    found = {(row["arm"], row["name"]): row for row in rates if row["kind"] == kind}
    sizes: dict[str, int] = {}
    for (_, name), row in found.items():
        sizes[name] = max(row["instances"], sizes.get(name, 0))
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    if len(names) < 2:
        return
    arms = [arm.name for arm in rank_arms(report)]
    is_across = len(arms) > MANY_ARMS
    shown = names[: GROUPS_ACROSS if is_across else GROUPS]
    rest = "" if len(shown) == len(names) else f", the {len(shown)} largest of {len(names)}"
    if is_across:
        header: Texts = ("arm", *(f"{name} ({count(sizes[name])})" for name in shown))
        rows = [(arm, *(_rate(found.get((arm, name))) for name in shown)) for arm in arms]
    else:
        header = (kind, "instances", *arms)
        rows = [
            (name, count(sizes[name]), *(_rate(found.get((arm, name))) for arm in arms))
            for name in shown
        ]
    yield Table(f"Share resolved by {kind}{rest}, with 95 % intervals", header, tuple(rows))


def _rate(found: Mapping[str, Any] | None) -> str:
    """Format a rate with its Wilson interval, in which each instance is one trial."""
    if found is None:
        return DASH
    rate, instances = found["resolved"] / found["planned"], found["instances"]
    return _with_limits(rate, wilson_interval(rate * instances, instances))


def _with_limits(share: float, interval: Interval) -> str:
    return f"{percent(share)} ({100 * interval.low:.0f} to {100 * interval.high:.0f})"


def _repeats(shown: Sequence[Repeats]) -> Iterator[Table]:
    """Yield how reliably the arms resolve instances, if instances repeat."""
    if not shown:
        return
    rows = tuple(
        (
            each.arm,
            *map(count, (each.attempts, each.always, each.flaky, each.never)),
            percent(each.flaky / each.instances),
        )
        for each in shown
    )
    header = ("arm", "attempts each", "always resolved", "flaky", "never resolved", "share flaky")
    yield Table("Flaky instances: some attempts resolve them and others do not", header, rows)
    depths = [k for k in DEPTHS if k <= max(each.attempts for each in shown)]
    for name, chances in (
        ("pass@k: at least one of k attempts resolves the instance", [r.pass_at for r in shown]),
        ("pass^k: all of k attempts resolve it", [r.pass_all for r in shown]),
    ):
        by_arm = zip(shown, chances, strict=True)
        yield Table(
            f"{name}, with 95 % intervals",
            ("arm", *(f"k = {k}" for k in depths)),
            tuple(
                (each.arm, *(_chance_text(by_k.get(k)) for k in depths)) for each, by_k in by_arm
            ),
        )


def _chance_text(chance: Chance | None) -> str:
    return DASH if chance is None else _with_limits(chance.value, chance.interval)


def read_repeats(connection: DuckDBPyConnection) -> list[Repeats]:
    """Read the repeats of all declared arms, in declared order."""
    rows = read_rows(connection, "from marts.consistency")
    return [_count(arm, list(own)) for arm, own in groupby(rows, lambda row: str(row["arm"]))]


def _count(arm: str, rows: Sequence[Mapping[str, Any]]) -> Repeats:
    """Return the repeats of one arm, from its instances counted by planned and resolved cells."""
    planned, resolved, weights = (
        [row[name] for row in rows] for name in ("planned", "resolved", "instances")
    )
    always = sum(row["instances"] for row in rows if row["resolved"] == row["planned"])
    never = sum(row["instances"] for row in rows if row["resolved"] == 0)
    attempts, instances = min(planned), sum(weights)
    depths = range(1, attempts + 1)
    return Repeats(
        arm,
        instances,
        attempts,
        always,
        instances - always - never,
        never,
        {k: _chance(pass_at_k(planned, resolved, k), weights) for k in depths},
        {k: _chance(pass_all_k(planned, resolved, k), weights) for k in depths},
    )


def _chance(chances: NDArray[Any], weights: Sequence[int]) -> Chance:
    """Return the mean over instances with its interval.

    A share of successes has the greatest variance of all values between 0 and 1 with its mean.
    So the interval of such a share is at least as wide as that of these chances.
    """
    instances = sum(weights)
    total = min(float(instances), max(0.0, float(chances @ weights)))
    return Chance(total / instances, wilson_interval(total, instances))


_FOOTNOTES = (
    "An arm resolves an instance here if at least one of its planned attempts does. The oracle "
    "union is what a choice of the right arm for each instance would resolve: an upper bound "
    "for any way of choosing. Control arms (gold, null) are left out. Missed by an arm: "
    "resolved by another arm and not by it.",
    "Intervals of shares are Wilson's score intervals (Wilson, E. B. (1927), JASA 22, 209-212) "
    "with each instance as one trial, whatever its repeats. They are about instances like "
    "these in the same group. With many groups, some differences are chance: nothing on this "
    "list is a declared comparison.",
)

_OF_CHANCES = (
    "pass@k is the share of all choices of k attempts that include a resolved one, as a mean over "
    "instances (Chen, M. et al. (2021), arXiv:2107.03374); pass^k is the share of choices of "
    "which all are resolved (Yao, S. et al. (2024), arXiv:2406.12045). Both are unbiased. Their "
    "intervals are Wilson's with each instance as one trial, which is conservative: no mean of "
    "values between 0 and 1 varies more than a share (Bhatia, R. and Davis, C. (2000), American "
    "Mathematical Monthly 107, 353-357)."
)
