"""Warnings and notes that a reader must know before using the numbers."""

from collections.abc import Iterator

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
from reports.wording import list_comparisons, list_resources


def write_notes(
    source: Provenance,
    arms: tuple[ArmSummary, ...],
    comparisons: tuple[Comparison, ...],
    resampled: Resampled | None,
) -> tuple[Note, ...]:
    """Return all notes, warnings first."""
    notes = [
        *_about_plan(source),
        *_about_setting(arms),
        *_about_resources(source),
        *_about_losses(arms),
        *_about_suspicion(arms, comparisons, resampled),
        *_about_costs(arms),
        *_about_declaration(source, arms, comparisons),
        *_about_models(source, arms, comparisons),
        *_about_repeats(source, arms),
    ]
    return tuple(sorted(notes, key=lambda note: note.level != "warning"))


def _about_plan(source: Provenance) -> Iterator[Note]:
    """Warn of a declaration that was made or changed after results existed."""
    if source.environment == "imported" and source.plan.primary:
        yield Note(
            "note",
            "The comparisons were declared with the import, when its results existed: "
            f"{list_comparisons(source.plan)}.",
        )
    if not source.later_plans:
        return
    yield Note(
        "warning",
        "The declared comparisons were changed after results existed. Declared before the first "
        f"result: {_format_date(source.plan)}. Changed since to: "
        f"{'; '.join(map(_format_date, source.later_plans))}. Only what was declared before counts "
        "as declared; everything else is exploratory.",
    )


def _format_date(plan: AnalysisPlan) -> str:
    return list_comparisons(plan) + (f" ({moment(plan.declared_at)})" if plan.declared_at else "")


def _about_setting(arms: tuple[ArmSummary, ...]) -> Iterator[Note]:
    simulated = [arm.name for arm in arms if arm.simulated]
    if simulated:
        yield Note(
            "warning",
            "This report measures harnesses on a simulated model, not models "
            f"({_arms(simulated)}).",
        )
    on_host = [arm.name for arm in arms if arm.on_host]
    if on_host:
        yield Note("warning", f"Host workspaces: no isolation ({_arms(on_host)}).")


def _about_resources(source: Provenance) -> Iterator[Note]:
    if source.unequal_resources:
        yield Note(
            "warning",
            "The resources of containers were changed during the experiment, so that those of "
            f"{plural(source.unequal_resources, 'instance')} differ from cell to cell: "
            f"{list_resources(source)}.",
        )


def _about_losses(arms: tuple[ArmSummary, ...]) -> Iterator[Note]:
    planned = sum(arm.planned for arm in arms)
    told: tuple[tuple[State, str], ...] = (
        ("missing", "Never run"),
        ("ungraded", "Not graded yet"),
        ("infrastructure", "Lost to infrastructure"),
        ("stopped", "Stopped before the end; another run resumes them"),
    )
    for state, what in told:
        lost = {arm.name: arm.states[state] for arm in arms if arm.states[state]}
        if lost:
            per_arm = some([f"{name} {number}" for name, number in lost.items()])
            yield Note(
                "warning",
                f"{what}: {count(sum(lost.values()))} of {count(planned)} planned cells "
                f"({per_arm}), counted as not resolved.",
            )


def _about_suspicion(
    arms: tuple[ArmSummary, ...],
    comparisons: tuple[Comparison, ...],
    resampled: Resampled | None,
) -> Iterator[Note]:
    suspect = {arm.name: arm.suspect for arm in arms if arm.suspect}
    if not suspect:
        return
    per_arm = some([f"{name} {number}" for name, number in suspect.items()])
    told = (
        f"Suspect verdicts: {count(sum(suspect.values()))} of "
        f"{plural(sum(arm.resolved for arm in arms), 'resolved cell')} ({per_arm}). They count as "
        "resolved, as the official verdict says, but the audit doubts them"
    )
    if resampled and suspect.keys() & {resampled.baseline, resampled.candidate}:
        p = p_value(PairedTest(resampled.trusted, resampled.trusted_leads).p_value())
        told += (
            f"; without them the difference is {points(resampled.trusted.difference)} points, "
            f"p = {p}"
        )
    yield Note("warning", f"{told}.")


def _about_costs(arms: tuple[ArmSummary, ...]) -> Iterator[Note]:
    ran = [arm for arm in arms if arm.started]
    for with_calls, why in (
        (True, "although calls were made"),
        (False, "and the numbers of their calls are unknown"),
    ):
        unmetered = [
            arm.name for arm in ran if arm.cost.is_unmetered and bool(arm.mean_calls) is with_calls
        ]
        if unmetered:
            yield Note(
                "warning",
                f"Not metered: all costs of {some_names(unmetered)} are 0 {why}, so they count as "
                "unknown.",
            )
    unknown = [arm.name for arm in ran if arm.cost.usd is None and not arm.cost.is_unmetered]
    if unknown:
        is_all = len(unknown) == len(ran)
        yield Note(
            "warning",
            "No cost is known." if is_all else f"The cost of {some_names(unknown)} is unknown.",
        )
    bounded = [
        f"{arm.name}: {_missing_costs(arm)}"
        for arm in ran
        if arm.cost.usd is not None and arm.cost.is_lower_bound
    ]
    if bounded:
        yield Note("warning", f"Costs are lower bounds ({some(bounded, '; ')}).")
    yield from _about_counts(ran)
    cells = sum(arm.cells_tried_again for arm in arms)
    if cells:
        attempts = sum(arm.superseded_attempts for arm in arms)
        known = [arm.superseded_cost_usd for arm in arms if arm.superseded_cost_usd is not None]
        spent = sum(known) if known else None
        yield Note(
            "note",
            f"{plural(cells, 'cell')} tried more than once: the latest attempt that "
            f"infrastructure did not end counts; {plural(attempts, 'earlier attempt')} "
            f"({usd(spent, any(arm.superseded_incomplete for arm in arms))}) only in what was "
            "billed.",
        )


def _missing_costs(arm: ArmSummary) -> str:
    """Explain why an arm's known cost is incomplete: cells without cost, calls without price."""
    told, unmetered = [], arm.cost.unmetered_cells
    without = arm.started - arm.cells_with_cost - unmetered
    if unmetered:
        told.append(f"an unmetered $0 for {count(unmetered)} of {_cells(arm)}")
    if without:
        told.append(f"no cost for {count(without)} of {_cells(arm)}")
    if arm.cost.unpriced_calls:
        calls = plural(arm.cost.unpriced_calls, "call")
        cells = plural(arm.cells_with_unpriced_calls, "cell")
        told.append(f"{calls} without a known price in {cells}")
    return " and ".join(told)


def _cells(arm: ArmSummary) -> str:
    return plural(arm.started, "cell")


def _about_counts(arms: list[ArmSummary]) -> Iterator[Note]:
    """Note arms with tokens or calls known for only some cells."""
    told = [
        f"{arm.name}: {what} unknown in {count(unknown)} of {plural(arm.started, 'cell')}"
        for arm in arms
        for what, unknown in (
            ("tokens", arm.tokens.unknown_cells),
            ("calls", arm.started - arm.cells_with_calls),
        )
        if 0 < unknown < arm.started
    ]
    if told:
        yield Note(
            "note",
            "Some values are unknown: sums of tokens are lower bounds, and means of calls cover "
            f"only known cells ({some(told, '; ')}).",
        )


def _about_declaration(
    source: Provenance, arms: tuple[ArmSummary, ...], comparisons: tuple[Comparison, ...]
) -> Iterator[Note]:
    if source.declarations > 1:
        yield Note(
            "warning",
            f"The experiment was declared in {source.declarations} different ways under this "
            "name; the latest declaration sets the denominator.",
        )
    if not comparisons or comparisons[0].role == "primary":
        return
    if is_chosen_by_the_data(source, arms, comparisons):
        rivals = count(len(contenders(arms)) - 1)
        yield Note(
            "note",
            "No comparison was declared, so these results choose the best arm. Whether another one "
            f"may be as good counts all {rivals} comparisons with it, and is exploratory: a "
            "comparison that is declared before a run confirms it.",
        )
        return
    if comparisons[0].role == "declared":
        told = "belongs to the declared family and is not the primary one."
    elif source.plan.primary:
        told = "is exploratory, not the declared primary one."
    else:
        told = "was not declared in advance and is exploratory."
    yield Note("note", f"The comparison shown first {told}")


def _about_models(
    source: Provenance, arms: tuple[ArmSummary, ...], comparisons: tuple[Comparison, ...]
) -> Iterator[Note]:
    """Warn if the arms use different models: then the models are compared, too.

    The best of several arms is the best combination, whatever its model.
    """
    if is_chosen_by_the_data(source, arms, comparisons):
        return
    models = {arm.name: arm.model for arm in arms}
    for pair in comparisons[:1]:
        one, other = models[pair.baseline], models[pair.candidate]
        if one != other and not {"none", "unknown"} & {one, other}:
            yield Note(
                "warning",
                f"{pair.baseline} and {pair.candidate} have different models ({one} and {other}): "
                "the comparison shown first does not compare the agents alone.",
            )


def _about_repeats(source: Provenance, arms: tuple[ArmSummary, ...]) -> Iterator[Note]:
    repeats = {arm.name: arm.planned // source.instances for arm in arms}
    if max(repeats.values(), default=1) > 1:
        planned = f"{max(repeats.values())} times"
        if len(set(repeats.values())) > 1:
            planned = "as often as its arm says, and pairs are those that both arms plan ("
            planned += some([f"{name} {number}" for name, number in repeats.items()]) + ")"
        yield Note(
            "note",
            f"Each instance is planned {planned}. Rates are over cells (instance × "
            "repeat). The interval of a rate counts each instance once; p-values and intervals of "
            "differences estimate how alike the repeats of an instance are. Neither treats them as "
            "independent.",
        )


def _arms(names: list[str]) -> str:
    return f"{'arm' if len(names) == 1 else 'arms'} {some_names(names)}"
