"""Resolved instances: by number of arms, repository and difficulty, and over repeats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from reports.breakdowns import Chance, GroupRate, InstanceOverlap, Kind, Repeats
from reports.format import DASH, count, percent, plural
from reports.rendering.order import MANY_ARMS, ranked
from reports.sections import Row, Section, Table
from reports.statistics import wilson_interval
from reports.types import Report

QUESTION = "Which instances are resolved, and by how many arms?"

EXAMPLES = 4
"""Maximum number of instances that a row names."""

GROUPS = 40
"""Maximum number of repositories or difficulties as rows. The smallest are left out."""

GROUPS_ACROSS = 12
"""Maximum number of repositories or difficulties as columns."""

DEPTHS = (1, 2, 3, 4, 5, 8, 10, 16, 20, 32, 50, 100)
"""Numbers of attempts for which chances are shown."""

KINDS: Mapping[Kind, str] = {"repository": "repository", "difficulty": "difficulty"}


def instances_section(report: Report) -> Section:
    """Return answer, tables and footnotes."""
    if not any(arm.started for arm in report.arms):
        return Section("instances", QUESTION, "Nothing has run yet.")
    return Section(
        "instances", QUESTION, _answer(report), tuple(_tables(report)), _footnotes(report)
    )


def _answer(report: Report) -> str:
    instances = report.breakdowns.instances
    arms = report.breakdowns.most_arms
    if arms < 2:
        resolved = sum(len(each.resolving) for each in instances)
        return (
            f"The only arm resolves {count(resolved)} of {plural(len(instances), 'instance')}"
            + (" at least once." if report.source.repeats > 1 else ".")
        )
    union, every, one, none = (len(group) for group in report.breakdowns.by_arms)
    return (
        f"{count(union)} of {plural(len(instances), 'instance')} "
        f"({percent(union / len(instances))}) are resolved by at least one of {arms} arms: "
        f"{count(every)} by every arm and {count(one)} by exactly one. {count(none)} are resolved "
        "by none."
    )


def _tables(report: Report) -> Iterator[Table]:
    instances = report.breakdowns.instances
    arms = report.breakdowns.most_arms
    if arms > 1:
        yield Table(
            "Instances by the arms that resolve them",
            ("resolved by", "instances", "share", "95 % interval", "for example"),
            tuple(
                _overlap(name, group, instances)
                for name, group in zip(
                    (
                        "at least one arm (oracle union)",
                        f"every arm ({arms})",
                        "exactly one arm",
                        "no arm",
                    ),
                    report.breakdowns.by_arms,
                    strict=True,
                )
            ),
            remarks=1,
        )
        yield Table(
            "Instances of each arm",
            ("arm", "resolved", "only by it", "missed by it", "only by it, for example"),
            tuple(_own(report)),
            remarks=1,
        )
    for kind in KINDS:
        yield from _by_group(report, kind)
    yield from _of_repeats(report)


def _overlap(
    name: str, found: Sequence[InstanceOverlap], instances: Sequence[InstanceOverlap]
) -> Row:
    interval = wilson_interval(len(found), len(instances))
    return (
        name,
        count(len(found)),
        percent(len(found) / len(instances)),
        f"{percent(interval.low)} to {percent(interval.high)}",
        _examples(found) if len(found) < len(instances) else "",
    )


def _examples(found: Sequence[InstanceOverlap]) -> str:
    return ", ".join(each.instance_id for each in found[:EXAMPLES])


def _own(report: Report) -> Iterator[Row]:
    """Yield one row per arm: instances resolved at all, by it alone, and by others alone."""
    groups, repeats = report.breakdowns.by_arms, _repeats_of(report)
    alone: dict[str, list[InstanceOverlap]] = defaultdict(list)
    for instance in groups.one:
        alone[instance.resolving[0]].append(instance)
    for arm in ranked(report):
        if arm.is_control:
            continue
        resolved = repeats[arm.name].resolved
        missed = len(groups.union) - resolved
        own = alone[arm.name]
        yield arm.name, count(resolved), count(len(own)), count(missed), _examples(own)


def _repeats_of(report: Report) -> dict[str, Repeats]:
    return {each.arm: each for each in report.breakdowns.repeats}


def _by_group(report: Report, kind: Kind) -> Iterator[Table]:
    """Yield rates by repository or difficulty if there are several of them."""
    rates = [each for each in report.breakdowns.groups if each.kind == kind]
    sizes = {each.name: each.instances for each in sorted(rates, key=lambda each: each.instances)}
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    if len(names) < 2:
        return
    arms = [arm.name for arm in ranked(report)]
    found = {(each.arm, each.name): each for each in rates}
    is_across = len(arms) > MANY_ARMS
    shown = names[: GROUPS_ACROSS if is_across else GROUPS]
    rest = "" if len(shown) == len(names) else f", the {len(shown)} largest of {len(names)}"
    caption = f"Share resolved by {KINDS[kind]}{rest}, with 95 % intervals"
    if is_across:
        header: Row = ("arm", *(f"{name} ({count(sizes[name])})" for name in shown))
        rows = [(arm, *(_rate(found.get((arm, name))) for name in shown)) for arm in arms]
    else:
        header = (KINDS[kind], "instances", *arms)
        rows = [
            (name, count(sizes[name]), *(_rate(found.get((arm, name))) for arm in arms))
            for name in shown
        ]
    yield Table(caption, header, tuple(rows))


def _rate(found: GroupRate | None) -> str:
    """Format a rate with its Wilson interval, in which each instance is one trial."""
    if found is None:
        return DASH
    interval = wilson_interval(found.rate * found.instances, found.instances)
    return f"{percent(found.rate)} ({_short(interval.low)} to {_short(interval.high)})"


def _short(share: float) -> str:
    return f"{100 * share:.0f}"


def _of_repeats(report: Report) -> Iterator[Table]:
    """Yield how reliably the arms resolve instances, if instances repeat."""
    repeats = _repeats_of(report)
    shown = [repeats[arm.name] for arm in ranked(report) if repeats[arm.name].attempts > 1]
    if not shown:
        return
    yield Table(
        "Flaky instances: some attempts resolve them and others do not",
        ("arm", "attempts each", "always resolved", "flaky", "never resolved", "share flaky"),
        tuple(
            (
                each.arm,
                count(each.attempts),
                count(each.always),
                count(each.flaky),
                count(each.never),
                percent(each.flaky / each.instances),
            )
            for each in shown
        ),
    )
    depths = [k for k in DEPTHS if k <= max(each.attempts for each in shown)]
    for name, chances in (
        ("pass@k: at least one of k attempts resolves the instance", [r.pass_at for r in shown]),
        ("pass^k: all of k attempts resolve it", [r.pass_all for r in shown]),
    ):
        rows = zip(shown, chances, strict=True)
        yield Table(
            f"{name}, with 95 % intervals",
            ("arm", *(f"k = {k}" for k in depths)),
            tuple((each.arm, *(_chance(by_k.get(k)) for k in depths)) for each, by_k in rows),
        )


def _chance(chance: Chance | None) -> str:
    if chance is None:
        return DASH
    low, high = _short(chance.interval.low), _short(chance.interval.high)
    return f"{percent(chance.value)} ({low} to {high})"


def _footnotes(report: Report) -> tuple[str, ...]:
    notes = [
        "An arm resolves an instance here if at least one of its planned attempts does. The oracle "
        "union is what a choice of the right arm for each instance would resolve: an upper bound "
        "for any way of choosing. Control arms (gold, null) are left out. Missed by an arm: "
        "resolved by another arm and not by it.",
        "Intervals of shares are Wilson's score intervals (Wilson, E. B. (1927), JASA 22, 209-212) "
        "with each instance as one trial, whatever its repeats. They are about instances like "
        "these in the same group. With many groups, some differences are chance: nothing on this "
        "list is a declared comparison.",
    ]
    if any(each.attempts > 1 for each in report.breakdowns.repeats):
        notes.append(
            "pass@k is the share of all choices of k attempts that include a resolved one, as a "
            "mean over instances (Chen, M. et al. (2021), arXiv:2107.03374); pass^k is the share "
            "of choices of which all are resolved (Yao, S. et al. (2024), arXiv:2406.12045). Both "
            "are unbiased. Their intervals are Wilson's with each instance as one trial, which is "
            "conservative: no mean of values between 0 and 1 varies more than a share (Bhatia, R. "
            "and Davis, C. (2000), American Mathematical Monthly 107, 353-357)."
        )
    return tuple(notes)
