"""Comparison of one pair of arms by resampling: numbers without closed form, sensitivities."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import inf, isnan
from typing import TYPE_CHECKING

from reports.analysis.imputation import Cost, compare_unknown
from reports.estimates import Estimate, Interval
from reports.statistics.amounts import (
    difference_of_means,
    ratio_of_costs_per_resolved,
    ratio_of_sums,
)
from reports.statistics.bootstrap import Bootstrap, settings_for
from reports.statistics.paired import count_pairs, instance_leads
from reports.statistics.studentized import cost_per_resolved, difference_of_amounts
from reports.types import WITHOUT_VERDICT, Amounts, Costs, PairUnknowns, Resampled

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Places = NDArray[np.int64]

# An unknown amount is NaN in these columns, and a repository that is not known has the place -1.
_CELLS = """
    with shared as (
        select instance_id, repeat
        from marts.cells
        where arm in ($arm, $other)
        group by all
        having count(*) = 2
    )

    select
        dense_rank() over (order by instance_id) - 1 as instance,
        case when repository is null then -1 else dense_rank() over (order by repository) end
            as repository,
        state = 'resolved' as resolved,
        not list_contains($without_verdict, state) as has_verdict,
        state = 'resolved' and not coalesce(is_suspect, false) as is_trusted,
        attempt_id is not null as has_run,
        coalesce(case when is_cost_complete then cost_usd end, 'nan'::double) as cost_usd,
        coalesce(cost_usd, 'nan'::double) as known_usd,
        coalesce((input_tokens + output_tokens)::double, 'nan'::double) as tokens,
        coalesce(duration_s, 'nan'::double) as duration_s
    from marts.cells
    inner join shared using (instance_id, repeat)
    where arm = $arm
    order by instance, repeat
"""


@dataclass(frozen=True)
class _Cells:
    """The cells of one arm that are planned in both, by instance and repeat: one array a column."""

    instance: Places
    repository: Places
    resolved: Flags
    has_verdict: Flags
    is_trusted: Flags
    """True if a cell is resolved and the audit does not doubt it."""
    has_run: Flags
    cost_usd: Numbers
    """Cost in USD. NaN also if it is known only in part."""
    known_usd: Numbers
    """Known cost, possibly only in part. NaN if nothing is known."""
    tokens: Numbers
    duration_s: Numbers

    def only(self, chosen: Flags) -> _Cells:
        """Return the chosen cells."""
        return _Cells(
            **{column.name: getattr(self, column.name)[chosen] for column in fields(self)}
        )


def read_resampled(
    connection: DuckDBPyConnection,
    baseline: str,
    candidate: str,
    bootstrap: Bootstrap | None = None,
) -> Resampled:
    """Compare two declared arms over the cells that are planned in both.

    `connection` has the marts, as created by `reports.relations.open_marts`.
    """
    import numpy as np

    first = _read_cells(connection, baseline, candidate)
    second = _read_cells(connection, candidate, baseline)
    bootstrap = bootstrap or settings_for(len(np.unique(first.instance)))
    has_repositories = bool((first.repository >= 0).all()) and len(first.repository) > 0
    graded = first.has_verdict & second.has_verdict
    of_both = first.resolved[graded], second.resolved[graded]
    complete = count_pairs(*of_both)
    complete_leads = instance_leads(first.instance[graded], *of_both)
    has_price = ~np.isnan(first.cost_usd + second.cost_usd)
    a, b = first.only(has_price), second.only(has_price)
    instance, repository = a.instance, a.repository
    has_run = first.has_run & second.has_run

    def per_resolved(cells: _Cells, clusters: Places) -> Estimate | None:
        return cost_per_resolved(cells.cost_usd, cells.resolved, clusters, bootstrap)

    def ratio_per_resolved(clusters: Places) -> Estimate | None:
        return ratio_of_costs_per_resolved(
            a.cost_usd, a.resolved, b.cost_usd, b.resolved, clusters, bootstrap
        )

    by_repository, difference = Costs(None, None, None, None, None), None
    if has_repositories:
        by_repository = Costs(
            ratio=ratio_of_sums(a.cost_usd, b.cost_usd, repository, bootstrap),
            difference=difference_of_amounts(a.cost_usd, b.cost_usd, repository, bootstrap),
            baseline_per_resolved=per_resolved(a, repository),
            candidate_per_resolved=per_resolved(b, repository),
            ratio_per_resolved=ratio_per_resolved(repository),
        )
        difference = _compare_rates(first, second, bootstrap)
    return Resampled(
        baseline=baseline,
        candidate=candidate,
        resamples=bootstrap.resamples,
        seed=bootstrap.seed,
        difference_by_repository=difference,
        pairs_run=int(has_run.sum()),
        complete=complete,
        complete_leads=complete_leads,
        trusted=count_pairs(first.is_trusted, second.is_trusted),
        trusted_leads=instance_leads(first.instance, first.is_trusted, second.is_trusted),
        costs_by_repository=by_repository,
        cost=_compare_amounts(first.instance, first.cost_usd, second.cost_usd, bootstrap),
        tokens=_compare_amounts(first.instance, first.tokens, second.tokens, bootstrap),
        duration=_compare_amounts(first.instance, first.duration_s, second.duration_s, bootstrap),
        baseline_cost_per_resolved=per_resolved(a, instance),
        candidate_cost_per_resolved=per_resolved(b, instance),
        unknown_costs=_compare_unknown(first.only(has_run), second.only(has_run)),
        ratio_of_costs_per_resolved=ratio_per_resolved(instance),
    )


def _read_cells(connection: DuckDBPyConnection, arm: str, other: str) -> _Cells:
    """Read the cells of an arm that are planned in another one as well."""
    names = {"arm": arm, "other": other, "without_verdict": list(WITHOUT_VERDICT)}
    columns = connection.execute(_CELLS, names).fetchnumpy()
    return _Cells(**columns)  # type: ignore[arg-type]  # which has types by column only


def _compare_rates(first: _Cells, second: _Cells, bootstrap: Bootstrap) -> Estimate | None:
    """Return the difference of the resolution rates with its interval, by repository.

    The interval is unlimited if the difference is the same in all repositories: resamples that
    cannot differ say nothing about the variation of other instances.
    """
    estimate = difference_of_means(first.resolved, second.resolved, first.repository, bootstrap)
    if estimate is None or estimate.interval.low < estimate.interval.high:
        return estimate
    return replace(estimate, interval=Interval(-inf, inf))


def _compare_unknown(first: _Cells, second: _Cells) -> PairUnknowns | None:
    """Return the numbers with unknown costs replaced."""

    def costs(cells: _Cells) -> list[Cost]:
        columns = (cells.cost_usd.tolist(), cells.known_usd.tolist())
        whole, part = ([None if isnan(usd) else usd for usd in column] for column in columns)
        return list(zip(whole, part, strict=True))

    resolved = int(first.resolved.sum()), int(second.resolved.sum())
    return compare_unknown(costs(first), costs(second), resolved)


def _compare_amounts(
    instance: Places, baseline: Numbers, candidate: Numbers, bootstrap: Bootstrap
) -> Amounts:
    import numpy as np

    has_both = ~np.isnan(baseline + candidate)
    rows = baseline[has_both], candidate[has_both], instance[has_both], bootstrap
    return Amounts(
        pairs=int(has_both.sum()),
        ratio=ratio_of_sums(*rows),
        difference=difference_of_amounts(*rows),
    )
