"""Budget curves: what the arms would have resolved if each cell had been stopped at a limit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from reports.format import round_values
from reports.types import CONTROLS

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    Columns = Mapping[str, NDArray[np.float64]]

BudgetKind = Literal["usd", "calls"]

STEPS = 150
"""Maximum number of steps of a curve. More are thinned out, evenly."""

LIMITS = 8
"""Maximum number of limits in the table."""

KINDS: tuple[BudgetKind, ...] = ("usd", "calls")


@dataclass(frozen=True)
class BudgetStep:
    """Result of an arm if each of its cells had been stopped at a limit."""

    limit: float
    """Most that a cell may use, in USD or calls."""
    resolved: int
    """Cells resolved within the limit."""
    spent: float
    """Use of all cells together, each at most the limit."""


@dataclass(frozen=True)
class BudgetCurve:
    """One arm under every limit per cell, over the cells that ran with known use."""

    arm: str
    position: int
    """Position in the declaration, which gives the arm its colour."""
    planned: int
    steps: tuple[BudgetStep, ...]
    """Steps by ascending limit, thinned out. The last one is the result without a limit."""
    at: tuple[BudgetStep, ...]
    """Results at the limits of the table."""

    def share(self, step: BudgetStep) -> float:
        """Return the resolved share of all planned cells."""
        return step.resolved / self.planned


@dataclass(frozen=True)
class Leader:
    """The arm that resolves most, from its limit up to the limit of the next leader."""

    limit: float
    """Least limit per cell, in USD or calls, at which it resolves more than any arm before it."""
    arm: str
    share: float
    """Resolved share of its planned cells at this limit."""


@dataclass(frozen=True)
class BudgetComparison:
    """The arms under limits of one kind."""

    kind: BudgetKind
    limits: tuple[float, ...]
    """Limits of the table, round numbers in ascending order."""
    curves: tuple[BudgetCurve, ...]
    """Curves of the arms with known use, in declared order, without controls."""
    unknown: Mapping[str, int]
    """Number of resolved cells with unknown use by arm, if there are any. They are in no curve."""
    leaders: tuple[Leader, ...]
    """Every arm that resolves most at some limit, by ascending limit. Empty if no arm resolves
    anything."""


def read_budgets(
    connection: DuckDBPyConnection, arms: Collection[str]
) -> tuple[BudgetComparison, ...]:
    """Return the curves of these arms by limits of cost and of calls.

    A kind without known amounts is absent.

    `connection` has the marts, as created by `reports.relations.open_marts`.
    """
    budgets = [_read(connection, kind, arms) for kind in KINDS]
    return tuple(budget for budget in budgets if budget.curves)


def _read(
    connection: DuckDBPyConnection, kind: BudgetKind, arms: Collection[str]
) -> BudgetComparison:
    rows = connection.execute(
        """
        select arm, agent, planned, coalesce(resolved, 0) - coalesce(known, 0) as unknown
        from marts.arms
        left join (
            select arm, sum(cells) as resolved
            from marts.arm_states
            where state = 'resolved'
            group by arm
        ) using (arm)
        left join (
            select arm, max(resolved) as known from marts.budget_steps where kind = $1 group by arm
        ) using (arm)
        where arm in (select unnest($2))
        order by position, arm
        """,
        [kind, list(arms)],
    ).fetchall()
    columns: dict[str, Columns] = {}
    for arm, agent, _, _ in rows:
        fetched = connection.execute(
            """
            select most, resolved::double as resolved, spent::double as spent
            from marts.budget_steps
            where kind = $1 and arm = $2
            order by most
            """,
            [kind, arm],
        ).fetchnumpy()
        steps = cast("Columns", fetched)  # all of them are numbers
        if agent not in CONTROLS and len(steps["most"]) and steps["most"][-1] > 0:
            columns[arm] = steps
    limits = _choose_limits([steps["most"] for steps in columns.values()])
    planned = {arm: cells for arm, _, cells, _ in rows}
    curves = tuple(
        BudgetCurve(
            arm=arm,
            position=position,
            planned=cells,
            steps=_thin_out(columns[arm]),
            at=tuple(_interpolate(limit, columns[arm]) for limit in limits),
        )
        for position, (arm, _, cells, _) in enumerate(rows)
        if arm in columns
    )
    unknown = {arm: int(cells) for arm, _, _, cells in rows if cells and arm in columns}
    return BudgetComparison(kind, tuple(limits), curves, unknown, _find_leaders(columns, planned))


def _find_leaders(steps: Mapping[str, Columns], planned: Mapping[str, int]) -> tuple[Leader, ...]:
    """Return the arms that resolve most, each from the exact limit at which it takes the lead.

    An arm keeps the lead until another one resolves more. Of several that resolve the same at that
    limit, the cheapest takes it.
    """
    import numpy as np

    if not steps:
        return ()
    arms = list(steps)
    limits, spent = (
        np.concatenate([columns[name] for columns in steps.values()]) for name in ("most", "spent")
    )
    shares = np.concatenate([columns["resolved"] / planned[arm] for arm, columns in steps.items()])
    owners = np.repeat(np.arange(len(arms)), [len(columns["most"]) for columns in steps.values()])
    order = np.argsort(limits, kind="stable")
    distinct, starts = np.unique(limits[order], return_index=True)
    # A share never falls, so that the largest one so far is the largest one at each limit.
    most = np.maximum.accumulate(np.maximum.reduceat(shares[order], starts))
    leaders: list[Leader] = []
    for rise in np.flatnonzero(np.diff(most, prepend=0.0) > 0):
        end = starts[rise + 1] if rise + 1 < len(starts) else len(order)
        ahead = [place for place in order[starts[rise] : end] if shares[place] == most[rise]]
        if leaders and any(arms[owners[place]] == leaders[-1].arm for place in ahead):
            continue
        first = min(ahead, key=lambda place: spent[place])
        leaders.append(Leader(float(distinct[rise]), arms[owners[first]], float(most[rise])))
    return tuple(leaders)


def _choose_limits(amounts: Sequence[NDArray[np.float64]]) -> list[float]:
    """Return round numbers from the least amount that matters to the largest amount."""
    import numpy as np

    if not amounts:
        return []
    used = np.concatenate(amounts)
    used = used[used > 0]
    values = round_values(float(np.quantile(used, 0.02, method="lower")), float(used.max()))
    return values[:: -(-len(values) // LIMITS) or 1]


def _thin_out(columns: Columns) -> tuple[BudgetStep, ...]:
    last = len(columns["most"]) - 1
    places = sorted({round(i * last / (STEPS - 1)) for i in range(STEPS)})
    return tuple(_step(columns, place) for place in places)


def _step(columns: Columns, place: int) -> BudgetStep:
    return BudgetStep(
        float(columns["most"][place]),
        int(columns["resolved"][place]),
        float(columns["spent"][place]),
    )


def _interpolate(limit: float, columns: Columns) -> BudgetStep:
    """Return the result at a limit between two steps.

    Between two steps, the same cells are still within the limit, and each other cell uses all of
    it.
    """
    import numpy as np

    most = columns["most"]
    below = int(np.searchsorted(most, limit, side="right")) - 1
    if below == len(most) - 1:
        return BudgetStep(limit, int(columns["resolved"][-1]), float(columns["spent"][-1]))
    before = _step(columns, below) if below >= 0 else BudgetStep(0.0, 0, 0.0)
    after = _step(columns, below + 1)
    slope = (after.spent - before.spent) / (after.limit - before.limit)
    return BudgetStep(limit, before.resolved, before.spent + slope * (limit - before.limit))
