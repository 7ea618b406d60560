"""How an experiment ended before all of its cells were done (`stop_when`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.relations import read_rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_EARLY_END = """
    with spared as (
        select
            (sum(declared_instances - len(instance_ids)) * any_value(repeats))::bigint as cells,
            (sum(declared_instances) * any_value(repeats))::bigint as planned
        from staging.experiments
    )

    select
        baseline, candidate, alpha, complete, candidate_leads, baseline_leads, difference, e_value,
        cells as cells_not_needed, planned as cells_planned
    from staging.decisions, spared
    where cells > 0 and declaration_digest in (select declaration_digest from staging.experiments)
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


@dataclass(frozen=True)
class EarlyEnd:
    """The decision with which an experiment ended before all of its cells were done."""

    baseline: str
    candidate: str
    alpha: float
    complete: int
    """Instances that were complete then."""
    candidate_leads: int
    baseline_leads: int
    difference: float
    """Mean difference over them, a share."""
    e_value: float
    cells_not_needed: int
    cells_planned: int
    """Cells of all arms, with those that were not needed."""

    @property
    def leader(self) -> str:
        """The arm that resolves more."""
        return self.candidate if self.difference > 0 else self.baseline

    @property
    def other(self) -> str:
        """The arm that resolves less."""
        return self.baseline if self.difference > 0 else self.candidate


def read_early_end(connection: DuckDBPyConnection) -> EarlyEnd | None:
    """Read how the experiment was decided; None if it plans all of its cells."""
    rows = read_rows(connection, _EARLY_END)
    return EarlyEnd(**rows[0]) if rows else None


def read_saving(connection: DuckDBPyConnection) -> float | None:
    """Read the cost in USD of the cells that were not needed, at the mean of their arms.

    Return None if that of an arm is unknown.
    """
    rows = connection.execute(_SAVED).fetchall()
    return rows[0][0] if rows else None
