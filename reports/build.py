"""Build the report of one experiment from the lake."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from reports.analysis.best import contenders, rank_arms
from reports.analysis.notes import write_notes
from reports.analysis.paired import (
    read_arms,
    read_cells,
    read_comparisons,
    read_examples,
    read_split,
)
from reports.analysis.plans import judge_margin, read_plans
from reports.analysis.resampled import read_resampled
from reports.errors import ReportError
from reports.lake import naming_damage, near, open_lake
from reports.questions.arms import section as arms
from reports.questions.budgets import section as budgets
from reports.questions.cells import section as cells
from reports.questions.cost import section as cost
from reports.questions.differences import section as differences
from reports.questions.effort import section as effort
from reports.questions.failures import section as failures
from reports.questions.gradings import section as gradings
from reports.questions.harnesses import section as harnesses
from reports.questions.instances import section as instances
from reports.questions.looks import section as looks
from reports.questions.noise import section as noise
from reports.questions.pairs import section as pairs
from reports.questions.programs import section as programs
from reports.questions.resolution import section as resolution
from reports.questions.sensitivity import section as sensitivity
from reports.questions.sharing import section as sharing
from reports.questions.source import section as source
from reports.questions.spending import section as spending
from reports.questions.strata import section as strata
from reports.questions.trajectories.pages import find_trajectories
from reports.questions.worth import section as worth
from reports.questions.worth.analysis import read_worth
from reports.relations import AUDITS, FILES, SHARED, Making, read_rows
from reports.rendering.sections import Section
from reports.types import ArmSummary, ContainerResources, Pair, Provenance, Report, Role

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from upath import UPath

QUESTIONS: tuple[ModuleType, ...] = (
    *(resolution, arms, cost, worth, budgets, differences, instances, failures, effort, spending),
    *(sharing, programs, strata, gradings, noise, harnesses, sensitivity, pairs, cells, looks),
    source,
)
"""The questions of a report, in the order in which their answers are shown."""

_RESOURCES = """
    select memory_gb, cpus, pids, disk_gb
    from marts.resources
    order by all nulls last
"""

LAST = (effort, differences, failures, cells)
"""Questions about single calls, steps or cells, which DuckDB counts meanwhile."""


def build(
    lake: Path | UPath,
    experiment: str,
    baseline: str | None = None,
    candidate: str | None = None,
    *,
    alone: bool = False,
    cutoffs: Mapping[str, date] | None = None,
) -> Report:
    """Build the report of one experiment, complete or not.

    `baseline` and `candidate` put another pair of arms first than the declared one. With `alone`
    the report has only the arms of the first pair; their p-values remain adjusted over all pairs.
    `cutoffs` are the last days of training data by model.
    Raise ReportError for a missing lake, an unknown experiment, arm or model, and an experiment
    that declares nothing.
    """
    with naming_damage(lake, experiment):
        making = Making(open_lake(lake, experiment), audits=AUDITS)
        connection = making.connection
        try:
            making.wait(SHARED)
            source = _read_source(connection, experiment)
            arms = read_arms(connection).get(experiment, ())
            pair, role = _first_pair(arms, source, baseline, candidate)
            silent = frozenset(arm.name for arm in arms if not arm.has_answers)
            pair = None if silent.intersection(pair or ()) else pair
            comparisons = read_comparisons(connection, pair, role, source.plan, silent)
            names = tuple(arm.name for arm in arms)
            if alone and pair:
                arms = tuple(arm for arm in arms if arm.name in pair)
                comparisons, names = comparisons[:1], tuple(arm.name for arm in arms)
            leading = next(iter(comparisons), None)
            report = Report(
                title=experiment,
                names=names,
                source=source,
                arms=arms,
                comparisons=comparisons,
                worth=read_worth(connection, names),
                non_inferiority=judge_margin(source, leading) if leading else None,
                cutoffs=cutoffs or {},
                resampled=read_resampled(connection, *pair) if pair else None,
                split=read_split(connection, leading),
            )
            answers = {
                question: _ask(making, question, report)
                for question in QUESTIONS
                if question not in LAST
            }
            making.wait()
            report = replace(
                report,
                audits=making.audits(),
                cells=read_cells(connection, names, pair),
                failures=read_examples(connection, names),
            )
            report = replace(report, trajectories=find_trajectories(lake, report))
            answers |= {question: _ask(making, question, report) for question in LAST}
        finally:
            making.close()
    sections = tuple(section for question in QUESTIONS if (section := answers[question]))
    notes = write_notes(source, arms, comparisons, report.resampled)
    from_sections = tuple(note for section in sections for note in section.notes)
    return replace(report, sections=sections, notes=(*notes, *from_sections))


def _ask(making: Making, question: ModuleType, report: Report) -> Section | None:
    """Return the answer to a question as soon as the marts of its folder exist."""
    folder = Path(str(question.__file__)).parent
    making.wait([name for name, path in FILES.items() if path.parent == folder])
    section: Section | None = question.answer(making.connection, report)
    origins = folder / "origins.csv"
    if section is None or not origins.exists():
        return section
    with origins.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return replace(
        section, origins=tuple((number, computed, read) for number, computed, read in rows)
    )


def _read_source(connection: DuckDBPyConnection, experiment: str) -> Provenance:
    rows = read_rows(connection, "from marts.source")
    if not rows:
        raise ReportError(f"experiment {experiment!r} has no declaration in the lake: run it again")
    row = rows[0]
    if not row["instance_ids"]:
        raise ReportError(f"experiment {experiment!r} plans no instance: nothing to report")
    plan, later_plans = read_plans(connection)
    resources = read_rows(connection, _RESOURCES)
    times = [row["last_attempt_utc"], row["last_evaluation_utc"]]
    return Provenance(
        experiment=experiment,
        dataset=row["dataset"],
        dataset_digest=row["dataset_digest"],
        declaration_digest=row["declaration_digest"],
        declared_at=row["declared_at_utc"],
        declarations=row["declarations"],
        instances=len(row["instance_ids"]),
        repeats=row["repeats"],
        environment=row["environment"],
        resources=tuple(ContainerResources(**limits) for limits in resources),
        unequal_resources=len(read_rows(connection, "from marts.unequal_resources")),
        flaky=tuple(
            row["instance_id"] for row in read_rows(connection, "from marts.flaky_instances")
        ),
        plan=plan,
        later_plans=later_plans,
        first_attempt=row["first_attempt_utc"],
        last_activity=max((time for time in times if time), default=None),
        versions=_merge_versions(row),
    )


def _merge_versions(row: dict[str, Any]) -> Mapping[str, str]:
    """Map each package to its version over all attempts. Several versions become a list."""
    seen: dict[str, set[str]] = defaultdict(set)
    for text in row["versions"] or ():
        for package, version in json.loads(text).items():
            seen[package].add(str(version))
    seen["swebench"].update(row["harness_versions"] or ())
    return {package: ", ".join(sorted(seen[package])) for package in sorted(seen) if seen[package]}


def _first_pair(
    arms: tuple[ArmSummary, ...],
    source: Provenance,
    baseline: str | None,
    candidate: str | None,
) -> tuple[Pair | None, Role]:
    """Return the pair of arms that the report leads with, and its role."""
    names = [arm.name for arm in arms]
    for name in (baseline, candidate):
        if name is not None and name not in names:
            raise ReportError(f"no arm {name!r} in this experiment; {near(name, names)}")
    plans = (source.plan, *source.later_plans)
    declared = [plan.primary for plan in plans if plan.primary and set(plan.primary) <= set(names)]
    primary = declared[-1] if declared else None
    if baseline is None and candidate is None:
        best = _best_pair(arms)
        leading = primary or (best and source.plan.direct(best))
        return leading, source.plan.role_of(leading) if leading else "exploratory"
    declared_baseline, declared_candidate = primary or (None, None)
    first, second = baseline or declared_baseline, candidate or declared_candidate
    if first is None or second is None or first == second:
        rest = [name for name in names if name not in (baseline, candidate)]
        if (baseline and candidate) or len(rest) != 1:
            raise ReportError(
                "a comparison needs two different arms: give --baseline and --candidate"
            )
        first, second = baseline or rest[0], candidate or rest[0]
    role = source.plan.role_of((first, second))
    return (first, second), "chosen" if role == "exploratory" else role


def _best_pair(arms: tuple[ArmSummary, ...]) -> Pair | None:
    """Return the next best arm as baseline and the best one as candidate.

    Two arms keep their declared order. Controls and arms without an attempt or an answer are only
    taken if there are no others.
    """
    if len(contenders(arms)) > 2:
        best, following, *_ = rank_arms(arms)
        return following.name, best.name
    if len(arms) < 2:
        return None
    first, second, *_ = sorted(arms, key=lambda arm: (arm.is_control, not arm.has_answers))
    return first.name, second.name
