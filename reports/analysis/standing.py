"""States of the planned cells of an experiment, without statistics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.analysis.paired import read_rows
from reports.relations import CELLS, open_marts

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


def read_standing(lake: Path | UPath, experiment: str) -> list[dict[str, Any]]:
    """Return the planned cells, by instance, repeat and arm in declared order.

    Raise ReportError for a missing lake and an unknown experiment.
    """
    connection = open_marts(lake, experiment, CELLS)
    try:
        return read_rows(connection, _QUERY)
    finally:
        connection.close()
