"""States of the planned cells of an experiment, without statistics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.analysis.early_end import EarlyEnd, read_early_end
from reports.relations import CELLS, open_marts, read_rows

if TYPE_CHECKING:
    from upath import UPath

_QUERY = """
select
    arm, instance_id, repeat, state, outcome, attempt_id, started_at_utc, duration_s,
    model_calls, cost_usd, unpriced_calls,
    case
        when starts_with(detail, 'unproven: ') then concat_ws('; ', nullif(reason, ''), detail)
        else coalesce(nullif(reason, ''), detail, '')
    end as detail
from marts.cells
order by instance_position, repeat, position
"""


@dataclass(frozen=True)
class Standing:
    """The planned cells of an experiment, and how it ended early, if it did."""

    cells: list[dict[str, Any]]
    """By instance, repeat and arm in declared order."""
    early_end: EarlyEnd | None


def read_standing(lake: Path | UPath, experiment: str) -> Standing:
    """Read the planned cells.

    Raise ReportError for a missing lake and an unknown experiment.
    """
    connection = open_marts(lake, experiment, CELLS)
    try:
        return Standing(read_rows(connection, _QUERY), read_early_end(connection))
    finally:
        connection.close()
