"""The state of the primary comparison of a running experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.statistics import paired_e_value

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

LOST = ("missing", "stopped", "infrastructure", "ungraded")
"""States of cells that have no verdict yet."""


@dataclass(frozen=True)
class InterimLook:
    """The primary comparison of an unfinished experiment, over complete instances."""

    baseline: str
    candidate: str
    instances: int
    level: float
    """Share of experiments with equal arms that may be decided at any look."""
    differences: Mapping[float, int]
    """Complete instances by the share of cells that the candidate resolves, less that of the
    baseline. An instance is complete if all its cells in both arms have a verdict."""

    @property
    def complete(self) -> int:
        """Number of complete instances."""
        return sum(self.differences.values())

    @property
    def candidate_leads(self) -> int:
        """Number of complete instances at which the candidate resolves more cells."""
        return sum(number for share, number in self.differences.items() if share > 0)

    @property
    def baseline_leads(self) -> int:
        """Number of complete instances at which the baseline resolves more cells."""
        return sum(number for share, number in self.differences.items() if share < 0)

    @property
    def difference(self) -> float:
        """Mean difference over complete instances."""
        return sum(share * n for share, n in self.differences.items()) / self.complete

    @property
    def e_value(self) -> float:
        """Evidence against equal arms, valid at every look."""
        return paired_e_value(self.differences)


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
    rows = connection.execute(_COMPLETE, {**arms, "lost": list(LOST)}).fetchall()
    complete, instances = (sum(row[column] for row in rows) for column in (2, 3))
    if not 0 < complete < instances:
        return None
    differences: Counter[float] = Counter()
    for lead, cells, number, _ in rows:
        differences[lead / cells] += number
    [(declared,)] = connection.execute(_LEVEL).fetchall()
    return InterimLook(pair.baseline, pair.candidate, instances, declared or LEVEL, differences)
