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

    @property
    def least(self) -> float:
        """Sum with each unknown cost at its known part."""
        return self._total(0.0)

    @property
    def at_mean(self) -> float:
        """Sum with each unknown cost at the mean."""
        return self._total(self.usd / self.cells)

    @property
    def at_maximum(self) -> float:
        """Sum with each unknown cost at the maximum."""
        return self._total(self.most)

    def _total(self, instead: float) -> float:
        """Return the sum with `instead` for each unknown cost, but not less than its known part."""
        return fsum((self.usd, *(max(instead, part) for part in self.parts)))


def compare_unknown(
    baseline: Sequence[Cost], candidate: Sequence[Cost], resolved: tuple[int, int]
) -> PairUnknowns | None:
    """Return the numbers of two arms with unknown costs replaced, over pairs that ran in both.

    `resolved` has the number of resolved cells of each arm. Return None if nothing is unknown, or
    if an arm has no known cost above 0.
    """
    first, second = _get_known_costs(baseline), _get_known_costs(candidate)
    if first is None or second is None or not (first.parts or second.parts):
        return None
    pairs, (of_first, of_second) = len(baseline), resolved
    return PairUnknowns(
        cells=len(first.parts) + len(second.parts),
        pairs=pairs,
        ratio=_impute(lambda a, b: b / a, first, second),
        difference=_impute(lambda a, b: (b - a) / pairs, first, second),
        baseline_per_resolved=_per(first, of_first) if of_first else None,
        candidate_per_resolved=_per(second, of_second) if of_second else None,
        ratio_per_resolved=_impute(lambda a, b: b * of_first / (a * of_second), first, second)
        if of_first and of_second
        else None,
    )


def read_unknown_costs(connection: DuckDBPyConnection, worth: Worth) -> tuple[ArmUnknowns, ...]:
    """Return the numbers of each arm of which some costs are unknown, in declared order.

    Arms without a known cost above 0 are left out. `connection` has the marts.
    """
    rows = read_rows(connection, "from marts.unknown_costs")
    known = {
        row["arm"]: KnownCosts(
            row["known_cells"], row["known_usd"], row["most_usd"], row["parts_usd"]
        )
        for row in rows
    }
    per_cell = {row["arm"]: _per(known[row["arm"]], row["ran"]) for row in rows}
    return tuple(
        ArmUnknowns(
            arm=arm,
            cells=len(known[arm].parts),
            ran=ran,
            per_cell=per_cell[arm],
            per_resolved=_per(known[arm], resolved) if resolved else None,
            place=_certainty(arm, per_cell, worth),
        )
        for arm, ran, resolved in ((row["arm"], row["ran"], row["resolved"]) for row in rows)
    )


def _get_known_costs(costs: Sequence[Cost]) -> KnownCosts | None:
    """Return what is known, or None if there is no known cost above 0."""
    known = [whole for whole, _ in costs if whole is not None]
    if not any(known):
        return None
    parts = [part or 0.0 for whole, part in costs if whole is None]
    return KnownCosts(len(known), fsum(known), max(known), parts)


def _impute(
    number: Callable[[float, float], float], baseline: KnownCosts, candidate: KnownCosts
) -> Imputed:
    """Return a number of the arms' sums that falls with the first and rises with the second."""
    return Imputed(
        at_mean=number(baseline.at_mean, candidate.at_mean),
        at_maximum=number(baseline.at_maximum, candidate.at_maximum),
        bounds=Interval(
            number(baseline.at_maximum, candidate.least),
            number(baseline.least, candidate.at_maximum),
        ),
    )


def _per(known: KnownCosts, cells: int) -> Imputed:
    """Return the cost divided by a number of cells."""
    return _impute(lambda _, usd: usd / cells, known, known)


def _certainty(arm: str, per_cell: Mapping[str, Imputed], worth: Worth) -> Certainty | None:
    """Return whether an arm is on the frontier, whatever the unknown costs are.

    An arm is best placed if it costs the least and all others the most, and worst the other way.
    """
    names = [one.arm for one in worth.arms]
    if arm not in names:
        return None
    rates = [one.rate for one in worth.arms]
    limits = {
        one.arm: per_cell[one.arm].bounds
        if one.arm in per_cell
        else Interval(one.cost_usd, one.cost_usd)
        for one in worth.arms
    }
    best = [limits[name].low if name == arm else limits[name].high for name in names]
    worst = [limits[name].high if name == arm else limits[name].low for name in names]
    place = names.index(arm)
    is_on = [
        efficient_frontier(each, rates)[place].standing == "efficient" for each in (best, worst)
    ]
    return "on" if all(is_on) else "open" if any(is_on) else "off"
