"""The state of the primary comparison of a running experiment."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.statistics import PairedEvidence
from reports.types import WITHOUT_VERDICT

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from reports.types import Comparison, Provenance

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

LEVEL = 0.05
"""Level of a look that no declaration states."""


@dataclass(frozen=True)
class InterimLook(PairedEvidence):
    """The primary comparison of an unfinished experiment, over complete instances."""

    baseline: str
    candidate: str
    instances: int
    level: float
    """Share of experiments with equal arms that may be decided at any look."""


def read_look(
    connection: DuckDBPyConnection, source: Provenance, pair: Comparison | None
) -> InterimLook | None:
    """Read the state of the leading comparison.

    Return None unless it is the declared primary one, the experiment runs in this lake, some
    instance is complete and some is not.
    """
    if pair is None or pair.role != "primary" or source.environment == "imported":
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
