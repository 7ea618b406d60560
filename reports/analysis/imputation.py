"""Sensitivity of all numbers of cost to unknown costs.

Little, R. J. A. and Rubin, D. B. (2019). Statistical Analysis with Missing Data. 3rd edition,
Wiley, chapter 4; Manski, C. F. (2003). Partial Identification of Probability Distributions.
Springer, chapter 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Literal

from reports.economics import Worth
from reports.estimates import Imputed, Interval
from reports.relations import read_rows
from reports.statistics.frontier import efficient_frontier
from reports.types import PairUnknowns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Cost = tuple[float | None, float | None]
"""Cost of one cell if fully known, and the known part of its cost."""


Certainty = Literal["on", "off", "open"]
"""Place of an arm against the frontier, whatever its own and all other unknown costs are."""

CERTAINTIES: dict[Certainty, str] = {
    "on": "on the frontier anyway",
    "off": "off the frontier anyway",
    "open": "depends on the unknown costs",
}


@dataclass(frozen=True)
class ArmUnknowns:
    """Numbers of one arm with unknown costs replaced, over its cells that ran."""

    arm: str
    cells: int
    """Number of cells without a fully known cost."""
    ran: int
    per_cell: Imputed
    per_resolved: Imputed | None
    """None if the arm resolves nothing."""
    place: Certainty | None
    """None if the arm is left out of the economic evaluation."""


@dataclass(frozen=True)
class KnownCosts:
    """The known costs of cells of one arm, whole or in part."""

    cells: int
    """Number of cells with a fully known cost."""
    usd: float
    """Their sum."""
    most: float
    """Their maximum."""
    parts: Sequence[float]
    """The known part of each other cost, 0 if nothing is known."""

    def total(self, instead: float) -> float:
        """Return the sum with `instead` for each unknown cost, but not less than its known part."""
        return fsum((self.usd, *(max(instead, part) for part in self.parts)))


def compare_unknown(
    baseline: Sequence[Cost], candidate: Sequence[Cost], resolved: tuple[int, int]
) -> PairUnknowns | None:
    """Return the numbers of two arms with unknown costs replaced, over pairs that ran in both.

    `resolved` has the number of resolved cells of each arm. Return None if nothing is unknown, or
    if an arm has no known cost above 0.
    """
    first, second = _sum_up(baseline), _sum_up(candidate)
    if first is None or second is None or not (first.parts or second.parts):
        return None
    pairs, (of_first, of_second) = len(baseline), resolved
    return PairUnknowns(
        cells=len(first.parts) + len(second.parts),
        pairs=pairs,
        ratio=_impute(lambda a, b: b / a, first, second),
        difference=_impute(lambda a, b: (b - a) / pairs, first, second),
        baseline_per_resolved=_divide(first, of_first),
        candidate_per_resolved=_divide(second, of_second),
        ratio_per_resolved=_impute(lambda a, b: b * of_first / (a * of_second), first, second)
        if of_first and of_second
        else None,
    )


def read_unknown_costs(connection: DuckDBPyConnection, worth: Worth) -> tuple[ArmUnknowns, ...]:
    """Return the numbers of each arm with unknown costs, in declared order.

    Arms without a known cost above 0 are left out. `connection` has the marts.
    """
    rows = read_rows(connection, "from marts.unknown_costs")
    costs = {
        row["arm"]: KnownCosts(
            *(row[name] for name in ("known_cells", "known_usd", "most_usd", "parts_usd"))
        )
        for row in rows
    }
    per_cell = {
        row["arm"]: imputed for row in rows if (imputed := _divide(costs[row["arm"]], row["ran"]))
    }
    return tuple(
        ArmUnknowns(
            arm=row["arm"],
            cells=len(costs[row["arm"]].parts),
            ran=row["ran"],
            per_cell=per_cell[row["arm"]],
            per_resolved=_divide(costs[row["arm"]], row["resolved"]),
            place=_place(row["arm"], per_cell, worth),
        )
        for row in rows
    )


def _sum_up(costs: Sequence[Cost]) -> KnownCosts | None:
    """Return the known costs, or None if no cost above 0 is known."""
    whole_costs = [whole for whole, _ in costs if whole is not None]
    if not any(whole_costs):
        return None
    parts = [part or 0.0 for whole, part in costs if whole is None]
    return KnownCosts(len(whole_costs), fsum(whole_costs), max(whole_costs), parts)


def _impute(
    number: Callable[[float, float], float], baseline: KnownCosts, candidate: KnownCosts
) -> Imputed:
    """Return a number of the arms' sums that falls with the first and rises with the second."""
    arms = (baseline, candidate)
    at_mean = [arm.total(arm.usd / arm.cells) for arm in arms]
    least = [arm.total(0.0) for arm in arms]
    most = [arm.total(arm.most) for arm in arms]
    bounds = Interval(number(most[0], least[1]), number(least[0], most[1]))
    return Imputed(at_mean=number(*at_mean), at_maximum=number(*most), bounds=bounds)


def _divide(costs: KnownCosts, cells: int) -> Imputed | None:
    """Return the cost divided by a number of cells, or None without any."""
    return _impute(lambda _, usd: usd / cells, costs, costs) if cells else None


def _place(arm: str, per_cell: Mapping[str, Imputed], worth: Worth) -> Certainty | None:
    """Return whether an arm is on the frontier, whatever the unknown costs are.

    An arm is best placed if it costs the least and all others the most, and worst the other way.
    """
    names, rates = [other.arm for other in worth.arms], [other.rate for other in worth.arms]
    if arm not in names:
        return None
    limits = {other.arm: Interval(other.cost_usd, other.cost_usd) for other in worth.arms}
    limits |= {name: imputed.bounds for name, imputed in per_cell.items() if name in limits}
    best = [limits[name].low if name == arm else limits[name].high for name in names]
    worst = [limits[name].high if name == arm else limits[name].low for name in names]
    is_on = {
        efficient_frontier(costs, rates)[names.index(arm)].standing == "efficient"
        for costs in (best, worst)
    }
    return "open" if len(is_on) > 1 else "on" if is_on.pop() else "off"
