"""The state of the primary comparison of a running experiment, or how it ended one early."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.analysis.standing import EarlyEnd, read_early_ends
from reports.estimates import LEVEL
from reports.format import count, percent, points, usd
from reports.rendering.sections import Note, Section
from reports.statistics.looks import PairedEvidence
from reports.types import WITHOUT_VERDICT, Report

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_COMPLETE = """
    with pairs as (
        select
            instance_id,
            candidate.state = 'resolved' as by_candidate,
            baseline.state = 'resolved' as by_baseline,
            baseline.state in $lost or candidate.state in $lost as is_lost
        from marts.cells as baseline
        inner join marts.cells as candidate using (instance_id, repeat)
        where baseline.arm = $baseline and candidate.arm = $candidate
    ),

    instances as (
        select
            bool_or(is_lost) as is_open,
            count(*) filter (by_candidate) - count(*) filter (by_baseline) as lead,
            count(*) as cells
        from pairs
        group by instance_id
    )

    select lead, cells, count(*) filter (not is_open), count(*)
    from instances
    group by all
"""

_LEVEL = """
    select any_value(json_extract_string(declaration, '$.stop_when.alpha')::double)
    from staging.experiments
"""

_SAVED = """
    select
        sum(
            (declared_instances - len(instance_ids)) * repeats
            * known_cost_usd / nullif(cells_with_cost, 0)
        )
    from staging.experiments
    left join marts.arms using (arm)
    having bool_and(known_cost_usd is not null)
"""
"""Cost of the cells that were not needed, at the mean of their arms. No row if one is unknown."""


@dataclass(frozen=True)
class InterimLook(PairedEvidence):
    """The primary comparison of an unfinished experiment, over complete instances."""

    baseline: str
    candidate: str
    instances: int
    level: float
    """Share of experiments with equal arms that may be decided at any look."""


def answer(connection: DuckDBPyConnection, report: Report) -> Section | None:
    """Return a note if the primary comparison is unfinished or ended the experiment."""
    if end := read_early_ends(connection).get(report.title):
        text = _describe_end(end, connection)
    elif look := read_look(connection, report):
        text = _describe_unfinished(look)
    else:
        return None
    return Section("looks", "", notes=(Note("note", text),))


def read_look(connection: DuckDBPyConnection, report: Report) -> InterimLook | None:
    """Read the state of the leading comparison.

    Return None unless it is the declared primary one, the experiment runs in this lake, some
    instance is complete and some is not.
    """
    pair = next(iter(report.comparisons), None)
    if pair is None or pair.role != "primary" or report.source.environment == "imported":
        return None
    arms = {"baseline": pair.baseline, "candidate": pair.candidate}
    rows = connection.execute(_COMPLETE, {**arms, "lost": list(WITHOUT_VERDICT)}).fetchall()
    complete, instances = (sum(row[column] for row in rows) for column in (2, 3))
    if not 0 < complete < instances:
        return None
    differences: Counter[float] = Counter()
    for lead, cells, number, _ in rows:
        differences[lead / cells] += number
    [(declared,)] = connection.execute(_LEVEL).fetchall()
    return InterimLook(differences, pair.baseline, pair.candidate, instances, declared or LEVEL)


def _describe_unfinished(look: InterimLook) -> str:
    ahead, behind, counts = _order(look)
    decided = 1 / look.level
    if look.e_value >= decided:
        conclusion = f"{ahead} resolves more than {behind}, however often the results were read"
    else:
        conclusion = f"nothing yet about {look.candidate} and {look.baseline}"
    return (
        f"The experiment is unfinished: {count(look.complete)} of {count(look.instances)} "
        "instances are complete in both arms of the primary comparison. What may be concluded now: "
        f"{conclusion} ({counts}; e-value {_show_e_value(look.e_value)}, decided at "
        f"{percent(look.level)} from {decided:g} on). "
        "P-values and intervals hold for one look at the end."
    )


def _describe_end(end: EarlyEnd, connection: DuckDBPyConnection) -> str:
    ahead, behind, counts = _order(end)
    row = connection.execute(_SAVED).fetchone()
    worth = f", about {usd(row[0])} at the mean cost of a cell" if row and row[0] else ""
    size = points(abs(end.difference)).lstrip("+")
    return (
        f"The experiment ended early, as declared (stop_when): {ahead} resolves more than "
        f"{behind} (e-value {_show_e_value(end.e_value)} after {count(end.complete)} complete "
        f"instances, decided at {percent(end.alpha)} from {1 / end.alpha:g} on; {counts}). "
        f"{count(end.cells_not_needed)} of {count(end.cells_planned)} planned cells were not "
        f"needed{worth}. They are in no rate. The lead then was {size} points: a lead at which an "
        "experiment ends is larger on average than the true one, and p-values and intervals do not "
        "know of the end."
    )


def _order(look: InterimLook | EarlyEnd) -> tuple[str, str, str]:
    """Return the arm that leads, the other one, and at how many instances each does."""
    arms = [(look.candidate, look.candidate_leads), (look.baseline, look.baseline_leads)]
    if look.difference < 0:
        arms.reverse()
    (ahead, more), (behind, fewer) = arms
    counts = f"{ahead} leads at {count(more)}, {behind} at {count(fewer)} of them"
    return ahead, behind, counts


def _show_e_value(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else "above 1,000"
