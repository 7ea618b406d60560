"""Notes on a comparison of foreign results: unknown facts, differences, instances to add."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from flows.experiments.power import CORRELATION
from flows.formats.attempts import ExchangedAttempt
from flows.formats.lake_rows import get_metered_usd
from reports.analysis.notes import describe_import
from reports.estimates import LEVEL
from reports.format import count, listing, percent, plural, some, some_names
from reports.rendering.sections import Note
from reports.statistics.power import Design, estimate_instances_needed, instances_needed
from reports.types import Report
from reports.wording import list_comparisons

POWER = 0.8
"""Probability with which the planned instances or repeats would show the difference."""

MOST_REPEATS = 10

FEW = 100
"""Number of instances below which a normal test is too rough an estimate."""

_FACTS: Mapping[str, Callable[[ExchangedAttempt], Any]] = {
    "verdict": lambda attempt: attempt.facts.verdict,
    "cost": lambda attempt: get_metered_usd(attempt.facts.cost_usd, attempt.facts.model_calls),
    "tokens": lambda attempt: attempt.facts.output_tokens,
    "number of calls": lambda attempt: attempt.facts.model_calls,
    "date": lambda attempt: attempt.facts.started_at,
    "duration": lambda attempt: attempt.facts.duration_s,
    "release of the agent": lambda attempt: attempt.version or attempt.facts.versions or None,
    "model": lambda attempt: attempt.model or attempt.facts.model == "none" or None,
}
"""Facts that a report can use, each with its value in an attempt; None if it is unknown."""

Arms = Mapping[str, Sequence[ExchangedAttempt]]


def describe_instances(
    instances: Mapping[str, frozenset[str]], common: frozenset[str]
) -> Iterator[Note]:
    """Yield a note if some results have further instances, which are left out."""
    others = {name: len(ids - common) for name, ids in instances.items()}
    if any(others.values()):
        rest = listing([f"{count(number)} of {name}" for name, number in others.items() if number])
        yield Note(
            "warning",
            f"Compared on the {plural(len(common), 'instance')} that all results have. Left out, "
            f"since others do not have them: {rest}.",
        )


def describe_simulated(arms: Arms) -> Iterator[Note]:
    """Yield a warning if the model of some arms is simulated."""
    simulated = [
        arm for arm, attempts in arms.items() if attempts[0].facts.model.startswith("simulated/")
    ]
    if simulated:
        yield Note("warning", f"The model of {some_names(simulated)} is simulated: no real model.")


def describe_unknown(arms: Arms) -> Iterator[Note]:
    """Yield a note about the unknown facts of each arm. Arms with the same share one."""
    names: dict[str, list[str]] = {}
    for arm, attempts in arms.items():
        unknown = []
        for fact, find in _FACTS.items():
            missing = sum(find(attempt) is None for attempt in attempts)
            if missing:
                is_part = missing < len(attempts)
                unknown.append(f"{fact} ({missing} of {len(attempts)})" if is_part else fact)
        if unknown:
            names.setdefault(", ".join(unknown), []).append(arm)
    for facts, alike in names.items():
        yield Note("note", f"The files of {some_names(alike)} do not say: {facts}.")


def describe_settings(arms: Arms) -> Iterator[Note]:
    """Yield a warning for each setting that differs between arms which state it."""
    names = dict.fromkeys(name for a in arms.values() for one in a for name in one.settings)
    for name in names:
        stated = {
            arm: sorted({str(one.settings[name]) for one in attempts if name in one.settings})
            for arm, attempts in arms.items()
        }
        if len({tuple(values) for values in stated.values() if values}) > 1:
            each = some([f"{', '.join(v) or 'unknown'} in {arm}" for arm, v in stated.items()])
            yield Note("warning", f"The arms differ in more than the agent: {name} is {each}.")


def say_declared_before(report: Report) -> Report:
    """Return a report whose notes say that an experiment declared its comparisons in advance."""
    plan = report.source.plan
    note = Note("note", f"Declared before the results: {list_comparisons(plan)}.")
    others = (other for other in report.notes if other != describe_import(plan))
    return replace(report, notes=(note, *others))


def describe_need(report: Report) -> Iterator[Note]:
    """Yield a note about the instances or repeats that would settle the leading comparison."""
    leading = next(iter(report.comparisons), None)
    if leading is None or not leading.table.discordant or leading.p_value < LEVEL:
        return
    table, repeats = leading.table, max(1, round(leading.table.pairs / leading.leads.instances))
    difference = abs(table.difference)
    pair = f"{leading.baseline} and {leading.candidate}"
    if not difference:
        yield Note("note", f"{pair} resolve equally many: no number of instances is estimated.")
        return
    correlation = report.split.correlation if report.split else CORRELATION
    discordance = table.discordant / table.pairs
    design = Design(leading.leads.instances, repeats, discordance, difference, correlation)
    single = replace(design, repeats=1)
    needed = estimate_instances_needed(single, POWER)
    if needed < FEW:
        needed = instances_needed(single, POWER) or needed
    more = max(1, ceil(needed / design.gain) - design.instances)
    settle = f"about {plural(_round(more), 'more instance')}"
    for number in range(repeats + 1, MOST_REPEATS + 1):
        if design.instances * replace(design, repeats=number).gain >= needed:
            settle += f" or {number} repeats of each (correlation {correlation:.2g})"
            break
    yield Note(
        "note",
        f"To settle it: if the difference of {100 * difference:.1f} points between {pair} is real, "
        f"{settle} would show it with a probability of {percent(POWER)}.",
    )


def _round(number: int) -> int:
    """Return the next number with two significant digits."""
    step: int = 10 ** max(0, len(str(number)) - 2)
    return ceil(number / step) * step
