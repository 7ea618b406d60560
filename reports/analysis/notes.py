"""Warnings and notes that a reader must know before using the numbers."""

from collections.abc import Iterator, Mapping

from reports.analysis.best import contenders, is_chosen_by_the_data
from reports.format import (
    count,
    moment,
    p_value,
    plural,
    points,
    some,
    some_names,
    usd,
)
from reports.rendering.sections import Note
from reports.statistics.paired import PairedTest
from reports.types import AnalysisPlan, ArmSummary, Comparison, Provenance, Resampled, State
from reports.wording import describe_silence, list_comparisons, list_resources


def write_notes(
    source: Provenance,
    arms: tuple[ArmSummary, ...],
    comparisons: tuple[Comparison, ...],
    resampled: Resampled | None,
) -> tuple[Note, ...]:
    """Return all notes, warnings first."""
    notes = [
        *_check_plan(source),
        *_check_setting(source, arms),
        *_count_losses(arms),
        *_count_unanswered(arms),
        *_count_suspects(arms, resampled),
        *_check_costs([arm for arm in arms if arm.started]),
        *_check_counts([arm for arm in arms if arm.started]),
        *_count_superseded(arms),
        *_check_declaration(source, arms, comparisons),
        *_compare_models(source, arms, comparisons),
        *_explain_repeats(source, arms),
    ]
    return tuple(sorted(notes, key=lambda note: note.level != "warning"))


def describe_import(plan: AnalysisPlan) -> Note:
    """Return a note about comparisons that an import declares."""
    return Note(
        "note",
        "The comparisons were declared with the import, when its results existed: "
        f"{list_comparisons(plan)}.",
    )


def _check_plan(source: Provenance) -> Iterator[Note]:
    """Warn of a declaration that was made or changed after results existed."""

    def show(plan: AnalysisPlan) -> str:
        time = f" ({moment(plan.declared_at)})" if plan.declared_at else ""
        return list_comparisons(plan) + time

    if source.environment == "imported" and source.plan.primary:
        yield describe_import(source.plan)
    if source.later_plans:
        yield Note(
            "warning",
            "The declared comparisons were changed after results existed. Declared before the "
            f"first result: {show(source.plan)}. Changed since to: "
            f"{'; '.join(map(show, source.later_plans))}. Only what was declared before counts as "
            "declared; everything else is exploratory.",
        )


def _check_setting(source: Provenance, arms: tuple[ArmSummary, ...]) -> Iterator[Note]:
    def list_arms(names: list[str]) -> str:
        return f"{'arm' if len(names) == 1 else 'arms'} {some_names(names)}"

    if simulated := [arm.name for arm in arms if arm.simulated]:
        yield Note(
            "warning",
            "This report measures harnesses on a simulated model, not models "
            f"({list_arms(simulated)}).",
        )
    if source.flaky:
        yield Note(
            "warning",
            f"The tests of {some(source.flaky)} are flaky: the reference patch is resolved in some "
            "repeats only. Leave such instances out, or judge no arm by them.",
        )
    if on_host := [arm.name for arm in arms if arm.on_host]:
        yield Note("warning", f"Host workspaces: no isolation ({list_arms(on_host)}).")
    if source.unequal_resources:
        yield Note(
            "warning",
            "The resources of containers were changed during the experiment, so that the limits of "
            f"{plural(source.unequal_resources, 'instance')} differ from cell to cell: "
            f"{list_resources(source)}.",
        )


def _count_losses(arms: tuple[ArmSummary, ...]) -> Iterator[Note]:
    planned = sum(arm.planned for arm in arms)
    states: tuple[tuple[State, str], ...] = (
        ("missing", "Never run"),
        ("ungraded", "Not graded yet"),
        ("infrastructure", "Lost to infrastructure"),
        ("stopped", "Stopped before the end; another run resumes them"),
    )
    for state, title in states:
        cells = {arm.name: arm.states[state] for arm in arms if arm.states[state]}
        if cells:
            yield Note(
                "warning",
                f"{title}: {count(sum(cells.values()))} of {plural(planned, 'planned cell')} "
                f"({_list_numbers(cells)}), counted as not resolved.",
            )


def _count_unanswered(arms: tuple[ArmSummary, ...]) -> Iterator[Note]:
    """Warn of cells without an answer of arms that had answers. The headline has other arms."""
    if partly := [arm for arm in arms if arm.unanswered and arm.has_answers]:
        yield Note("warning", describe_silence(partly))


def _list_numbers(numbers: Mapping[str, int]) -> str:
    return some([f"{name} {number}" for name, number in numbers.items()])


def _count_suspects(arms: tuple[ArmSummary, ...], resampled: Resampled | None) -> Iterator[Note]:
    suspect = {arm.name: arm.suspect for arm in arms if arm.suspect}
    if not suspect:
        return
    text = (
        f"Suspect verdicts: {count(sum(suspect.values()))} of "
        f"{plural(sum(arm.resolved for arm in arms), 'resolved cell')} ({_list_numbers(suspect)}). "
        "They count as resolved, as the official verdict says, but the audit doubts them"
    )
    if resampled and suspect.keys() & {resampled.baseline, resampled.candidate}:
        p = p_value(PairedTest(resampled.trusted, resampled.trusted_leads).p_value())
        difference = points(resampled.trusted.difference)
        text += f"; without them the difference is {difference} points, p = {p}"
    yield Note("warning", f"{text}.")


def _check_costs(arms: list[ArmSummary]) -> Iterator[Note]:
    for with_calls, reason in (
        (True, "although calls were made"),
        (False, "and the numbers of their calls are unknown"),
    ):
        unmetered = [
            arm.name for arm in arms if arm.cost.is_unmetered and bool(arm.mean_calls) is with_calls
        ]
        if unmetered:
            yield Note(
                "warning",
                f"Not metered: all costs of {some_names(unmetered)} are 0 {reason}, so they count "
                "as unknown.",
            )
    unknown = [arm.name for arm in arms if arm.cost.usd is None and not arm.cost.is_unmetered]
    if unknown and len(unknown) == len(arms):
        yield Note("warning", "No cost is known.")
    elif unknown:
        yield Note("warning", f"The cost of {some_names(unknown)} is unknown.")
    bounds = [
        f"{arm.name}: {_explain_bound(arm)}"
        for arm in arms
        if arm.cost.usd is not None and arm.cost.is_lower_bound
    ]
    if bounds:
        yield Note("warning", f"Costs are lower bounds ({some(bounds, '; ')}).")


def _explain_bound(arm: ArmSummary) -> str:
    """Explain why an arm's known cost is incomplete: cells without cost, calls without price."""
    reasons, unmetered, cells = [], arm.cost.unmetered_cells, plural(arm.started, "cell")
    if unmetered:
        reasons.append(f"an unmetered $0 for {count(unmetered)} of {cells}")
    if without := arm.started - arm.cells_with_cost - unmetered:
        reasons.append(f"no cost for {count(without)} of {cells}")
    if arm.cost.unpriced_calls:
        calls = plural(arm.cost.unpriced_calls, "call")
        cells = plural(arm.cells_with_unpriced_calls, "cell")
        reasons.append(f"{calls} without a known price in {cells}")
    return " and ".join(reasons)


def _check_counts(arms: list[ArmSummary]) -> Iterator[Note]:
    """Note arms with tokens or calls known for only some cells."""
    parts = [
        f"{arm.name}: {what} unknown in {count(unknown)} of {plural(arm.started, 'cell')}"
        for arm in arms
        for what, unknown in (
            ("tokens", arm.tokens.unknown_cells),
            ("calls", arm.started - arm.cells_with_calls),
        )
        if 0 < unknown < arm.started
    ]
    if parts:
        yield Note(
            "note",
            "Some values are unknown: sums of tokens are lower bounds, and means of calls cover "
            f"only known cells ({some(parts, '; ')}).",
        )


def _count_superseded(arms: tuple[ArmSummary, ...]) -> Iterator[Note]:
    cells = sum(arm.cells_tried_again for arm in arms)
    if cells:
        attempts = sum(arm.superseded_attempts for arm in arms)
        costs = [arm.superseded_cost_usd for arm in arms if arm.superseded_cost_usd is not None]
        is_bound = any(arm.superseded_incomplete for arm in arms)
        yield Note(
            "note",
            f"{plural(cells, 'cell')} tried more than once: the latest attempt that "
            f"infrastructure did not end counts; {plural(attempts, 'earlier attempt')} "
            f"({usd(sum(costs) if costs else None, is_bound)}) only in what was billed.",
        )


def _check_declaration(
    source: Provenance, arms: tuple[ArmSummary, ...], comparisons: tuple[Comparison, ...]
) -> Iterator[Note]:
    if source.declarations > 1:
        yield Note(
            "warning",
            f"The experiment was declared in {source.declarations} different ways under this "
            "name; the latest declaration sets the denominator.",
        )
    role = comparisons[0].role if comparisons else "primary"
    if is_chosen_by_the_data(source, arms, comparisons):
        rivals = count(len(contenders(arms)) - 1)
        yield Note(
            "note",
            "No comparison was declared, so these results choose the best arm. Whether another one "
            f"may be as good counts all {rivals} comparisons with it, and is exploratory: a "
            "comparison that is declared before a run confirms it.",
        )
    elif role == "declared":
        yield Note(
            "note",
            "The comparison shown first belongs to the declared family and is not the primary one.",
        )
    elif role != "primary" and source.plan.primary:
        text = "The comparison shown first is exploratory, not the declared primary one."
        yield Note("note", text)
    elif role != "primary":
        text = "The comparison shown first was not declared in advance and is exploratory."
        yield Note("note", text)


def _compare_models(
    source: Provenance, arms: tuple[ArmSummary, ...], comparisons: tuple[Comparison, ...]
) -> Iterator[Note]:
    """Warn if the arms use different models: then the models are compared as well.

    The best of several arms is the best combination, whatever its model.
    """
    if not comparisons or is_chosen_by_the_data(source, arms, comparisons):
        return
    pair, models = comparisons[0], {arm.name: arm.model for arm in arms}
    first, second = models[pair.baseline], models[pair.candidate]
    if first != second and not {"none", "unknown"} & {first, second}:
        yield Note(
            "warning",
            f"{pair.baseline} and {pair.candidate} have different models ({first} and {second}): "
            "the comparison shown first does not compare the agents alone.",
        )


def _explain_repeats(source: Provenance, arms: tuple[ArmSummary, ...]) -> Iterator[Note]:
    repeats = {arm.name: arm.planned // source.instances for arm in arms}
    most = max(repeats.values(), default=1)
    if most > 1:
        planned = f"{most} times"
        if len(set(repeats.values())) > 1:
            planned = (
                "as often as its arm says, and pairs are those that both arms plan "
                f"({_list_numbers(repeats)})"
            )
        yield Note(
            "note",
            f"Each instance is planned {planned}. Rates are over cells (instance × "
            "repeat). The interval of a rate counts each instance once; p-values and intervals of "
            "differences estimate how alike the repeats of an instance are. Neither treats them as "
            "independent.",
        )
