"""What a running experiment may conclude about its primary comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.statistics import paired_e_value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from reports.types import Comparison, Source

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
            count(*) filter (by_candidate) - count(*) filter (by_baseline) as lead
        from pairs
        group by instance_id
    )

    select
        count(*) filter (not is_open),
        count(*) filter (not is_open and lead > 0),
        count(*) filter (not is_open and lead < 0),
        count(*)
    from instances
"""

LOST = ("missing", "stopped", "infrastructure", "ungraded")
"""States of cells that have no verdict yet."""


@dataclass(frozen=True)
class Look:
    """The primary comparison of an unfinished experiment, over complete instances."""

    baseline: str
    candidate: str
    instances: int
    complete: int
    """Instances of which every cell of both arms has a verdict, all repeats included."""
    candidate_leads: int
    """Those of them at which the candidate resolves more cells."""
    baseline_leads: int
    e_value: float
    """Evidence against equal arms, valid at every look."""


def read_look(
    connection: DuckDBPyConnection, source: Source, pair: Comparison | None
) -> Look | None:
    """Read the state of the leading comparison.

    Return None unless it is the declared primary one, the experiment runs in this lake, some
    instance is complete and some is not.
    """
    if pair is None or pair.role != "primary" or source.environment == "imported":
        return None
    arms = {"baseline": pair.baseline, "candidate": pair.candidate}
    [(complete, candidate, baseline, instances)] = connection.execute(
        _COMPLETE, {**arms, "lost": list(LOST)}
    ).fetchall()
    if not 0 < complete < instances:
        return None
    evidence = paired_e_value(candidate, baseline)
    return Look(pair.baseline, pair.candidate, instances, complete, candidate, baseline, evidence)
