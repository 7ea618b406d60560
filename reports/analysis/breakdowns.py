"""Breakdowns read from the marts, with the chances of repeated attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from reports.analysis.paired import read_rows
from reports.breakdowns import (
    Breakdowns,
    CallUse,
    Chance,
    GroupRate,
    InstanceOverlap,
    Repeats,
    Spread,
    ToolUse,
)
from reports.statistics import pass_all_k, pass_at_k, wilson_interval

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray


def read_breakdowns(connection: DuckDBPyConnection) -> Breakdowns:
    """Read all breakdowns. `connection` has the marts."""
    return Breakdowns(
        instances=_read(connection, "from marts.instances", InstanceOverlap),
        groups=_read(connection, "from marts.groups", GroupRate),
        repeats=tuple(_read_repeats(connection)),
        spreads=_read(connection, "from marts.spreads", Spread),
        calls=_read(connection, "from marts.call_uses", CallUse),
        tools=_read(connection, "from marts.tool_uses", ToolUse),
    )


def _read(connection: DuckDBPyConnection, query: str, kind: Any) -> tuple[Any, ...]:
    """Return the rows of a mart in its own order, as objects of this type."""
    rows = read_rows(connection, query)
    return tuple(
        kind(**{name: value for name, value in row.items() if name != "position"}) for row in rows
    )


def _read_repeats(connection: DuckDBPyConnection) -> list[Repeats]:
    rows = read_rows(connection, "from marts.consistency")
    return [_repeats(arm, list(own)) for arm, own in groupby(rows, lambda row: str(row["arm"]))]


def _repeats(arm: str, rows: Sequence[Mapping[str, Any]]) -> Repeats:
    """Return the repeats of one arm, from its instances counted by planned and resolved cells."""
    always = sum(row["instances"] for row in rows if row["resolved"] == row["planned"])
    never = sum(row["instances"] for row in rows if row["resolved"] == 0)
    instances = sum(row["instances"] for row in rows)
    attempts = min(row["planned"] for row in rows)
    planned, resolved = [row["planned"] for row in rows], [row["resolved"] for row in rows]
    weights = [row["instances"] for row in rows]
    depths = range(1, attempts + 1)
    return Repeats(
        arm=arm,
        instances=instances,
        attempts=attempts,
        always=always,
        flaky=instances - always - never,
        never=never,
        pass_at={k: _chance(pass_at_k(planned, resolved, k), weights) for k in depths},
        pass_all={k: _chance(pass_all_k(planned, resolved, k), weights) for k in depths},
    )


def _chance(chances: NDArray[Any], weights: Sequence[int]) -> Chance:
    """Return the mean over instances with its interval.

    A share of successes has the greatest variance of all values between 0 and 1 with its mean.
    So the interval of such a share is at least as wide as that of these chances.
    """
    instances = sum(weights)
    total = min(float(instances), max(0.0, float(chances @ weights)))
    return Chance(total / instances, wilson_interval(total, instances))
