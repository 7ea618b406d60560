"""Instances over many arms, each cell as one sign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reports.breakdowns import Strip
from reports.types import Pair, State

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

STRIP_CELLS = 100_000
"""Maximum number of cells with a sign."""


def read_strips(
    connection: DuckDBPyConnection,
    arms: Sequence[str],
    pair: Pair | None,
    signs: Mapping[State, str],
) -> tuple[Strip, ...]:
    """Return the strips of up to `STRIP_CELLS` cells, in declared order of the instances.

    The signs of a strip are in the order of `arms`. Instances that some arms do not plan are left
    out. `pair` is the leading pair of arms. `connection` has the marts.
    """
    rows = connection.execute(
        """
        with arms as (
            select unnest($arms) as arm, generate_subscripts($arms, 1) as rank
        ),

        states as (
            select unnest($states) as state, unnest($signs) as sign
        ),

        cells as (
            select arm, instance_id, instance_position, repeat, position, state
            from marts.cells
            semi join arms using (arm)
            order by instance_position, repeat, position
            limit $most
        ),

        final as (
            select
                instance_id,
                repeat,
                count(*) filter (state = 'resolved') as resolved,
                string_agg(sign, '' order by rank) as signs,
                count(distinct state = 'resolved') filter (arm in (select unnest($pair))) > 1
                    as differs,
                min((instance_position, repeat, position)) as place
            from cells
            inner join arms using (arm)
            inner join states using (state)
            group by instance_id, repeat
            having count(*) = len($arms)
        )

        select * exclude (place) from final
        order by place
        """,
        {
            "arms": list(arms),
            "pair": list(pair or ()),
            "states": list(signs),
            "signs": list(signs.values()),
            "most": STRIP_CELLS,
        },
    ).fetchall()
    return tuple(Strip(*row) for row in rows)
