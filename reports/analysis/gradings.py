"""How many wrong verdicts turn the leading comparison, and how often gradings disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.analysis.paired import read_rows
from reports.gradings import Flip, Gradings
from reports.statistics import (
    Verdicts,
    random_errors_for_another_test,
    wrong_verdicts_for_another_sign,
    wrong_verdicts_for_another_test,
)
from reports.types import Comparison

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LEVEL = 0.05

_VERDICTS = """
    with pairs as (
        select
            instance_id,
            ahead.state = 'resolved' as is_ahead,
            behind.state = 'resolved' as is_behind
        from marts.cells as ahead
        inner join marts.cells as behind using (instance_id, repeat)
        where ahead.arm = $ahead and behind.arm = $behind
    ),

    instances as (
        select
            (count(*) filter (is_ahead = is_behind))::integer as alike,
            (count(*) filter (is_ahead and not is_behind))::integer as only_ahead,
            (count(*) filter (is_behind and not is_ahead))::integer as only_behind
        from pairs
        group by instance_id
    )

    select alike, only_ahead, only_behind, count(*) from instances group by all
"""


def read_gradings(
    connection: DuckDBPyConnection, arms: Sequence[str], pair: Comparison | None
) -> Gradings:
    """Read the gradings of these arms. `pair` is the leading comparison."""
    rows = [row for row in read_rows(connection, "from marts.gradings") if row["arm"] in arms]
    has_verdicts = pair is not None and (pair.table.both or pair.table.discordant)
    return Gradings(
        verdicts=2 * pair.table.pairs if pair and has_verdicts else 0,
        to_turn_test=_to_turn_test(connection, pair) if pair and has_verdicts else None,
        to_turn_sign=wrong_verdicts_for_another_sign(pair.leads) if pair else 0,
        is_fewest=pair is not None and not pair.has_repeats,
        random_errors=random_errors_for_another_test(pair.leads, LEVEL)
        if pair and has_verdicts and pair.p_value < LEVEL
        else None,
        graded_again=len(rows),
        flaky=sum(row["is_flaky"] or row["is_flipped"] for row in rows),
        flips=tuple(
            Flip(row["arm"], row["instance_id"], row["repeat"]) for row in rows if row["is_flipped"]
        ),
    )


def _to_turn_test(connection: DuckDBPyConnection, pair: Comparison) -> int | None:
    ahead, behind = pair.candidate, pair.baseline
    if pair.leads.total < 0:
        ahead, behind = behind, ahead
    rows = connection.execute(_VERDICTS, {"ahead": ahead, "behind": behind}).fetchall()
    return wrong_verdicts_for_another_test(
        {Verdicts(*verdicts): number for *verdicts, number in rows}, LEVEL
    )
