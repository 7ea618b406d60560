"""Breakdowns read from the marts, with the chances of repeated attempts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from reports.breakdowns import (
    Breakdowns,
    CallUse,
    Chance,
    CostSpread,
    GroupRate,
    InstanceOverlap,
    Repeats,
    Spread,
    ToolUsage,
)
from reports.relations import read_rows
from reports.statistics import pass_all_k, pass_at_k, wilson_interval

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

DOTS, ALL_DOTS = 300, 1_200
"""Maximum number of costs shown one by one, for each arm and for all arms together."""


def read_breakdowns(connection: DuckDBPyConnection, arms: Collection[str]) -> Breakdowns:
    """Read the breakdowns of these arms that need neither calls nor steps.

    `connection` has the marts.
    """
    found = Breakdowns(
        instances=_read(connection, "from marts.instances", InstanceOverlap),
        groups=_read(connection, "from marts.groups", GroupRate),
        repeats=tuple(_read_repeats(connection)),
        spreads=_read(connection, "from marts.spreads", Spread),
        costs=_read_costs(connection, arms),
        calls=(),
        tools=(),
    )
    return found.of(arms)


def with_work(
    connection: DuckDBPyConnection, found: Breakdowns, arms: Collection[str]
) -> Breakdowns:
    """Add the uses of calls and tools by these arms, which take longest to count."""
    calls = _read(connection, "from marts.call_uses", CallUse)
    tools = _read(connection, "from marts.tool_uses", ToolUsage)
    return replace(
        found,
        calls=tuple(one for one in calls if one.arm in arms),
        tools=tuple(one for one in tools if one.arm in arms),
    )


def _read(connection: DuckDBPyConnection, query: str, kind: Any) -> tuple[Any, ...]:
    """Return the rows of a mart in its own order, as objects of this type."""
    rows = read_rows(connection, query)
    return tuple(
        kind(**{name: value for name, value in row.items() if name != "position"}) for row in rows
    )


def _read_costs(connection: DuckDBPyConnection, arms: Collection[str]) -> tuple[CostSpread, ...]:
    """Return the costs of the arms that have any above 0."""
    import numpy as np

    names = list(arms)
    columns = connection.execute(
        """
        select number, cost_usd
        from marts.cells
        inner join (
            select unnest($1) as arm, generate_subscripts($1, 1) - 1 as number
        ) using (arm)
        where cost_usd is not null
        order by instance_position, repeat, position
        """,
        [names],
    ).fetchnumpy()
    order = np.argsort(columns["number"], kind="stable")
    ends = np.cumsum(np.bincount(columns["number"], minlength=len(names)))[:-1]
    by_arm = dict(zip(names, np.split(columns["cost_usd"][order], ends), strict=True))
    paid = {name: costs for name, costs in by_arm.items() if costs.any()}
    dots = dots_of(len(paid))
    return tuple(_cost_spread(name, costs, dots) for name, costs in paid.items())


def dots_of(arms: int) -> int:
    """Return the maximum number of costs that are shown of each of so many arms."""
    return max(2, min(DOTS, ALL_DOTS // max(1, arms)))


def _cost_spread(arm: str, costs: NDArray[Any], dots: int) -> CostSpread:
    import numpy as np

    ranked, last = np.sort(costs), len(costs) - 1
    places = [round(i * last / (dots - 1)) for i in range(dots)]
    shown = costs if len(costs) <= dots else ranked[places]
    return CostSpread(
        arm=arm,
        cells=len(costs),
        least=float(ranked[0]),
        middle=float(ranked[len(ranked) // 2]),
        most=float(ranked[-1]),
        dots=tuple(shown.tolist()),
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
