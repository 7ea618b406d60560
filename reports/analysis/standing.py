"""States of the planned cells of an experiment, and its early end (`stop_when`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.relations import open_marts, read_rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from upath import UPath

_QUERY = """
select
    experiment, arm, instance_id, repeat, state, outcome, attempt_id, started_at_utc, duration_s,
    model_calls, cost_usd, unpriced_calls, coalesce(detail, '') as attempt_detail,
    empty_replies, cut_off_replies, callless_replies, repeated_replies, refused_requests,
    case
        when starts_with(detail, 'unproven: ') then concat_ws('; ', nullif(reason, ''), detail)
        else coalesce(nullif(reason, ''), detail, '')
    end as detail
from marts.cells
order by instance_position, repeat, position
"""


_EARLY_END = """
    with spared as (
        select
            experiment,
            (sum(declared_instances - len(instance_ids)) * any_value(repeats))::bigint as cells,
            (sum(declared_instances) * any_value(repeats))::bigint as planned
        from staging.experiments
        group by experiment
    )

    select
        experiment, baseline, candidate, alpha, complete, candidate_leads, baseline_leads,
        difference, e_value, cells as cells_not_needed, planned as cells_planned
    from staging.decisions
    inner join spared using (experiment)
    semi join staging.experiments using (experiment, declaration_digest)
    where cells > 0
"""


@dataclass(frozen=True)
class EarlyEnd:
    """The early end of an experiment, before all of its cells were done."""

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
    """Planned cells of all arms, including unneeded ones."""

    @property
    def leader(self) -> str:
        """The arm that resolves more."""
        return self.candidate if self.difference > 0 else self.baseline

    @property
    def other(self) -> str:
        """The arm that resolves less."""
        return self.baseline if self.difference > 0 else self.candidate


@dataclass(frozen=True)
class Standing:
    """The planned cells of an experiment, and how it ended early, if it did."""

    cells: list[dict[str, Any]]
    """By instance, repeat and arm in declared order."""
    early_end: EarlyEnd | None


def read_early_ends(connection: DuckDBPyConnection) -> dict[str, EarlyEnd]:
    """Read how each experiment was decided, by its name, if it was."""
    return {row.pop("experiment"): EarlyEnd(**row) for row in read_rows(connection, _EARLY_END)}


def read_standings(lake: Path | UPath, experiments: Sequence[str]) -> dict[str, Standing]:
    """Read the planned cells of each of these experiments.

    Raise ReportError for a missing lake and an unknown experiment.
    """
    connection = open_marts(lake, experiments, ("cells",))
    try:
        ends = read_early_ends(connection)
        cells: dict[str, list[dict[str, Any]]] = {name: [] for name in experiments}
        for row in read_rows(connection, _QUERY):
            cells[row.pop("experiment")].append(row)
        return {name: Standing(rows, ends.get(name)) for name, rows in cells.items()}
    finally:
        connection.close()
