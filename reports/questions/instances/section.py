"""Which instances are resolved, and by how many arms?"""

from __future__ import annotations

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
"""Numbers of attempts in the table of chances."""

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


Chance = tuple[float, Interval]
"""A probability of success with k attempts, as a mean over instances, and its 95 % Wilson interval
with each instance as one trial, which is conservative."""


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


def answer(connection: DuckDBPyConnection, report: Report) -> Section:
    """Return instances by resolving arms, rates by repository and difficulty, and chances."""
    if not any(arm.started for arm in report.arms):
        return Section("instances", QUESTION, "Nothing has run yet.")
    names = [arm.name for arm in report.arms]
    instances = read_instances(connection, names)
    by_arm = {repeats.arm: repeats for repeats in read_repeats(connection)}
    repeated = [by_arm[arm.name] for arm in rank_arms(report) if by_arm[arm.name].attempts > 1]
    groups = [row for row in read_rows(connection, "from marts.groups") if row["arm"] in names]
    arms = max(len(instance.arms) for instance in instances)
    union = [instance for instance in instances if instance.resolving]
    parts = {
        "at least one arm (oracle union)": union,
        f"every arm ({arms})": [
            instance for instance in union if len(instance.resolving) == len(instance.arms)
        ],
        "exactly one arm": [instance for instance in union if len(instance.resolving) == 1],
        "no arm": [instance for instance in instances if not instance.resolving],
    }
    total = plural(len(instances), "instance")
    tables: list[Table] = []
    if arms < 2:
        resolved = sum(len(instance.resolving) for instance in instances)
        once = " at least once." if report.source.repeats > 1 else "."
        text = f"The only arm resolves {count(resolved)} of {total}{once}"
    else:
        tables = [_count_overlaps(parts, len(instances)), _count_by_arm(report, parts, by_arm)]
        number, every, single, none = map(len, parts.values())
        text = (
            f"{count(number)} of {total} ({percent(number / len(instances))}) are resolved by at "
            f"least one of {arms} arms: {count(every)} by every arm and {count(single)} by exactly "
            f"one. {count(none)} are resolved by none."
        )
    for kind in ("repository", "difficulty"):
        tables += _list_rates(report, [row for row in groups if row["kind"] == kind], kind)
    if repeated:
        tables += _list_repeats(repeated)
    footnotes = (*_FOOTNOTES, *((_OF_CHANCES,) if repeated else ()))
    return Section("instances", QUESTION, text, tuple(tables), footnotes)


def read_instances(connection: DuckDBPyConnection, arms: Sequence[str]) -> list[InstanceOverlap]:
    """Read all planned instances, each with the arms that plan it and the arms that resolve it."""
    rows = connection.execute(_INSTANCES, {"arms": list(arms)}).fetchall()
    return [InstanceOverlap._make(row) for row in rows]


def _count_overlaps(parts: Mapping[str, Sequence[InstanceOverlap]], instances: int) -> Table:
    rows = tuple(
        (
            name,
            count(len(part)),
            percent(len(part) / instances),
            percents(wilson_interval(len(part), instances)),
            _list_examples(part) if len(part) < instances else "",
        )
        for name, part in parts.items()
    )
    header = ("resolved by", "instances", "share", "95 % interval", "for example")
    return Table("Instances by the arms that resolve them", header, rows, remarks=1)


def _count_by_arm(
    report: Report,
    parts: Mapping[str, Sequence[InstanceOverlap]],
    repeats: Mapping[str, Repeats],
) -> Table:
    union, _, single, _ = parts.values()
    rows = []
    for arm in rank_arms(report):
        if not arm.is_control:
            alone = [instance for instance in single if instance.resolving[0] == arm.name]
            resolved = repeats[arm.name].always + repeats[arm.name].flaky
            missed = len(union) - resolved
            numbers = map(count, (resolved, len(alone), missed))
            rows.append((arm.name, *numbers, _list_examples(alone)))
    header = ("arm", "resolved", "only by it", "missed by it", "only by it, for example")
    return Table("Instances of each arm", header, tuple(rows), remarks=1)


def _list_examples(instances: Sequence[InstanceOverlap]) -> str:
    return ", ".join(instance.instance_id for instance in instances[:EXAMPLES])


def _list_rates(report: Report, rows: Sequence[Mapping[str, Any]], kind: str) -> Iterator[Table]:
    """Yield rates by repository or difficulty if there are several of them."""
    rates: dict[tuple[str, str], str] = {}
    sizes: dict[str, int] = {}
    for row in rows:
        rate, instances = row["resolved"] / row["planned"], row["instances"]
        limits = wilson_interval(rate * instances, instances)
        rates[row["arm"], row["name"]] = _show_chance((rate, limits))
        sizes[row["name"]] = max(instances, sizes.get(row["name"], 0))
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    if len(names) < 2:
        return
    arms = [arm.name for arm in rank_arms(report)]
    is_across = len(arms) > MANY_ARMS
    listed = names[: GROUPS_ACROSS if is_across else GROUPS]
    rest = "" if len(listed) == len(names) else f", the {len(listed)} largest of {len(names)}"
    if is_across:
        header: Texts = ("arm", *(f"{name} ({count(sizes[name])})" for name in listed))
        table = [(arm, *(rates.get((arm, name), DASH) for name in listed)) for arm in arms]
    else:
        header = (kind, "instances", *arms)
        table = [
            (name, count(sizes[name]), *(rates.get((arm, name), DASH) for arm in arms))
            for name in listed
        ]
    yield Table(f"Share resolved by {kind}{rest}, with 95 % intervals", header, tuple(table))


def _show_chance(chance: Chance | None) -> str:
    if chance is None:
        return DASH
    share, limits = chance
    return f"{percent(share)} ({100 * limits.low:.0f} to {100 * limits.high:.0f})"


def _list_repeats(arms: Sequence[Repeats]) -> Iterator[Table]:
    """Yield how reliably the arms resolve instances."""
    rows = tuple(
        (
            arm.arm,
            *map(count, (arm.attempts, arm.always, arm.flaky, arm.never)),
            percent(arm.flaky / arm.instances),
        )
        for arm in arms
    )
    header = ("arm", "attempts each", "always resolved", "flaky", "never resolved", "share flaky")
    yield Table("Flaky instances: some attempts resolve them and others do not", header, rows)
    depths = [k for k in DEPTHS if k <= max(arm.attempts for arm in arms)]
    for title, chances in (
        ("pass@k: at least one of k attempts resolves the instance", [a.pass_at for a in arms]),
        ("pass^k: all of k attempts resolve it", [a.pass_all for a in arms]),
    ):
        yield Table(
            f"{title}, with 95 % intervals",
            ("arm", *(f"k = {k}" for k in depths)),
            tuple(
                (arm.arm, *(_show_chance(by_depth.get(k)) for k in depths))
                for arm, by_depth in zip(arms, chances, strict=True)
            ),
        )


def read_repeats(connection: DuckDBPyConnection) -> list[Repeats]:
    """Read the repeats of all declared arms, in declared order."""
    arms = []
    rows = read_rows(connection, "from marts.consistency")
    for arm, group in groupby(rows, lambda row: str(row["arm"])):
        # The instances of an arm, counted by planned and resolved cells.
        columns = [(row["planned"], row["resolved"], row["instances"]) for row in group]
        planned, resolved, weights = map(list, zip(*columns, strict=True))
        always = sum(weight for tried, passed, weight in columns if passed == tried)
        never = sum(weight for _, passed, weight in columns if passed == 0)
        attempts, instances = min(planned), sum(weights)
        depths = range(1, attempts + 1)
        arms.append(
            Repeats(
                arm,
                instances,
                attempts,
                always,
                instances - always - never,
                never,
                {k: _average(pass_at_k(planned, resolved, k), weights) for k in depths},
                {k: _average(pass_all_k(planned, resolved, k), weights) for k in depths},
            )
        )
    return arms


def _average(chances: NDArray[Any], weights: Sequence[int]) -> Chance:
    """Return the mean over instances with its interval.

    A share of successes has the greatest variance of all values between 0 and 1 with its mean.
    So the interval of such a share is at least as wide as the interval of these chances.
    """
    instances = sum(weights)
    total = min(float(instances), max(0.0, float(chances @ weights)))
    return total / instances, wilson_interval(total, instances)


_FOOTNOTES = (
    "An arm resolves an instance here if at least one of its planned attempts does. The oracle "
    "union is the result of choosing the right arm for each instance: an upper bound "
    "for any way of choosing. Control arms (gold, null) are left out. Missed by an arm: "
    "resolved by another arm and not by it.",
    "Intervals of shares are Wilson's score intervals (Wilson, E. B. (1927), JASA 22, 209-212) "
    "with each instance as one trial, whatever its repeats. They are about instances like "
    "these in the same group. With many groups, some differences are chance: nothing on this "
    "list is a declared comparison.",
)

_OF_CHANCES = (
    "pass@k is the share of all choices of k attempts that include a resolved one, as a mean over "
    "instances (Chen, M. et al. (2021), arXiv:2107.03374); pass^k is the share of choices "
    "that are all resolved (Yao, S. et al. (2024), arXiv:2406.12045). Both are unbiased. Their "
    "intervals are Wilson's with each instance as one trial, which is conservative: no mean of "
    "values between 0 and 1 varies more than a share (Bhatia, R. and Davis, C. (2000), American "
    "Mathematical Monthly 107, 353-357)."
)
