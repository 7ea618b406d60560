"""Comparison of one pair of arms by resampling: numbers without closed form, sensitivities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from math import inf
from typing import TYPE_CHECKING

from reports.analysis.imputation import compare_unknown
from reports.economics import Costs
from reports.statistics import (
    Bootstrap,
    cost_per_resolved,
    difference_of_amounts,
    difference_of_means,
    instance_leads,
    paired_table,
    ratio_of_costs_per_resolved,
    ratio_of_sums,
    settings_for,
)
from reports.types import Amounts, Estimate, InstanceLeads, Interval, PairedTable, Resampled, State

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LOST: frozenset[State] = frozenset({"infrastructure", "stopped", "ungraded", "missing"})
"""States of cells without a verdict."""


@dataclass(frozen=True)
class _Cell:
    state: State
    cost_usd: float | None
    """Cost in USD. None also if it is known only in part."""
    tokens: float | None
    duration_s: float | None
    is_suspect: bool
    known_usd: float | None
    """Known cost, possibly only in part. None if nothing is known."""
    has_run: bool

    @property
    def resolved(self) -> bool:
        return self.state == "resolved"

    @property
    def is_trusted(self) -> bool:
        """True if the cell is resolved and the audit does not doubt it."""
        return self.resolved and not self.is_suspect

    @property
    def verdict(self) -> bool | None:
        return None if self.state in LOST else self.resolved


_Pair = tuple[int, _Cell, _Cell]
"""Number of the instance, baseline's cell, candidate's cell."""


def read_resampled(
    connection: DuckDBPyConnection,
    baseline: str,
    candidate: str,
    bootstrap: Bootstrap | None = None,
) -> Resampled:
    """Compare two declared arms over the cells that are planned in both.

    `connection` has the marts, as created by `reports.relations.open_marts`.
    """
    first, second = _read_cells(connection, baseline), _read_cells(connection, candidate)
    keys = sorted(first.keys() & second.keys())
    names = [name for name, _ in keys]
    instances = _numbered(names)
    pairs = [
        (instance, first[key], second[key]) for instance, key in zip(instances, keys, strict=True)
    ]
    bootstrap = bootstrap or settings_for(len(set(instances)))
    repository_of = _read_repositories(connection)
    named = [repository for name in names if (repository := repository_of[name])]
    repositories = _numbered(named) if len(named) == len(names) else None
    complete, complete_leads = _counted(
        [pair for pair in pairs if None not in (pair[1].verdict, pair[2].verdict)],
        lambda cell: cell.resolved,
    )
    trusted, trusted_leads = _counted(pairs, lambda cell: cell.is_trusted)
    verdicts = [a.resolved for _, a, _ in pairs], [b.resolved for _, _, b in pairs]
    has_price = [None not in (a.cost_usd, b.cost_usd) for _, a, b in pairs]
    priced = list(compress(pairs, has_price))
    ran = [pair for pair in pairs if pair[1].has_run and pair[2].has_run]
    spent = [[a.cost_usd or 0.0 for _, a, _ in priced], [b.cost_usd or 0.0 for _, _, b in priced]]
    solved = [[a.resolved for _, a, _ in priced], [b.resolved for _, _, b in priced]]
    payers = [instance for instance, _, _ in priced]
    return Resampled(
        baseline=baseline,
        candidate=candidate,
        resamples=bootstrap.resamples,
        seed=bootstrap.seed,
        difference_by_repository=_difference(verdicts, repositories, bootstrap)
        if repositories
        else None,
        complete=complete,
        complete_leads=complete_leads,
        trusted=trusted,
        trusted_leads=trusted_leads,
        costs_by_repository=_costs_by(
            list(compress(repositories, has_price)), spent, solved, bootstrap
        )
        if repositories
        else Costs(None, None, None, None, None),
        cost=_amounts(pairs, "cost_usd", bootstrap),
        tokens=_amounts(pairs, "tokens", bootstrap),
        duration=_amounts(pairs, "duration_s", bootstrap),
        baseline_cost_per_resolved=cost_per_resolved(spent[0], solved[0], payers, bootstrap),
        candidate_cost_per_resolved=cost_per_resolved(spent[1], solved[1], payers, bootstrap),
        unknown_costs=compare_unknown(
            [(a.cost_usd, a.known_usd) for _, a, _ in ran],
            [(b.cost_usd, b.known_usd) for _, _, b in ran],
            (sum(a.resolved for _, a, _ in ran), sum(b.resolved for _, _, b in ran)),
        ),
        ratio_of_costs_per_resolved=ratio_of_costs_per_resolved(
            spent[0], solved[0], spent[1], solved[1], payers, bootstrap
        ),
    )


def _counted(
    pairs: Sequence[_Pair], resolves: Callable[[_Cell], bool]
) -> tuple[PairedTable, InstanceLeads]:
    """Count pairs by the arms that resolve them, and instances by the candidate's lead."""
    verdicts = [resolves(a) for _, a, _ in pairs], [resolves(b) for _, _, b in pairs]
    return paired_table(*verdicts), instance_leads([name for name, _, _ in pairs], *verdicts)


def _difference(
    verdicts: tuple[Sequence[bool], Sequence[bool]], clusters: Sequence[int], bootstrap: Bootstrap
) -> Estimate | None:
    """Return the difference of the resolution rates with its interval.

    The interval is unlimited if the difference is the same in all clusters: resamples that
    cannot differ say nothing about the variation of other instances.
    """
    found = difference_of_means(*verdicts, clusters, bootstrap)
    if found is None or found.interval.low < found.interval.high:
        return found
    return replace(found, interval=Interval(-inf, inf))


def _costs_by(
    clusters: Sequence[int],
    spent: Sequence[Sequence[float]],
    solved: Sequence[Sequence[bool]],
    bootstrap: Bootstrap,
) -> Costs:
    """Compare the costs of the priced pairs, resampled by the given clusters."""
    return Costs(
        ratio=ratio_of_sums(spent[0], spent[1], clusters, bootstrap),
        difference=difference_of_amounts(spent[0], spent[1], clusters, bootstrap),
        baseline_per_resolved=cost_per_resolved(spent[0], solved[0], clusters, bootstrap),
        candidate_per_resolved=cost_per_resolved(spent[1], solved[1], clusters, bootstrap),
        ratio_per_resolved=ratio_of_costs_per_resolved(
            spent[0], solved[0], spent[1], solved[1], clusters, bootstrap
        ),
    )


def _read_cells(connection: DuckDBPyConnection, arm: str) -> Mapping[tuple[str, int], _Cell]:
    """Read the planned cells of an arm, by instance and repeat."""
    rows = connection.execute(
        """
        select
            instance_id,
            repeat,
            state,
            case when is_cost_complete then cost_usd end,
            input_tokens + output_tokens,
            duration_s,
            is_suspect,
            cost_usd,
            attempt_id is not null
        from marts.cells
        where arm = $1
        """,
        [arm],
    ).fetchall()
    return {(row[0], row[1]): _Cell(*row[2:]) for row in rows}


def _read_repositories(connection: DuckDBPyConnection) -> Mapping[str, str | None]:
    """Read the repository of every planned instance; None if it is not known."""
    query = "select instance_id, repository from marts.instances"
    return dict(connection.execute(query).fetchall())


def _numbered(names: Sequence[str]) -> list[int]:
    """Return the place of each name in their order. Clusters by number are faster to find."""
    places = {name: place for place, name in enumerate(sorted(set(names)))}
    return [places[name] for name in names]


def _amounts(pairs: Sequence[_Pair], name: str, bootstrap: Bootstrap) -> Amounts:
    rows = [(instance, getattr(a, name), getattr(b, name)) for instance, a, b in pairs]
    known = [row for row in rows if None not in row]
    instances = [instance for instance, _, _ in known]
    amounts = [a for _, a, _ in known], [b for _, _, b in known]
    return Amounts(
        pairs=len(known),
        ratio=ratio_of_sums(*amounts, instances, bootstrap),
        difference=difference_of_amounts(*amounts, instances, bootstrap),
    )
