"""Cost, tokens and time, resampled. Amounts are per row, and a row is a cell or a pair of cells.

`clusters` names the instance or the repository of each row. The caller removes rows with
unknown amounts, for both arms of a pair. These functions accept no missing values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.estimates import Estimate
from reports.statistics.bootstrap import Bootstrap

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from reports.statistics.bootstrap import Clusters


def ratio_of_sums(
    baseline: ArrayLike,
    candidate: ArrayLike,
    clusters: Clusters,
    bootstrap: Bootstrap,
) -> Estimate | None:
    """Return candidate's sum divided by baseline's, over the same rows. None if the latter is 0.

    It is a ratio of sums and not a mean of ratios, because a user pays for the whole run.
    Efron, B. and Tibshirani, R. J. (1993). An Introduction to the Bootstrap. Chapman & Hall,
    section 10.3.
    """
    return bootstrap.estimate(lambda a, b: b / a, [baseline, candidate], clusters)


def difference_of_means(
    baseline: ArrayLike,
    candidate: ArrayLike,
    clusters: Clusters,
    bootstrap: Bootstrap,
) -> Estimate | None:
    """Return candidate's mean per row minus baseline's, over the same rows. None without rows.

    With verdicts as 0 and 1 it is the difference of resolution rates. Its interval stays valid
    if cells repeat (clusters are instances) or repositories differ (clusters are repositories).
    """
    ones = [1.0] * len(clusters)
    return bootstrap.estimate(
        lambda a, b, rows: (b - a) / rows, [baseline, candidate, ones], clusters
    )


def ratio_of_costs_per_resolved(
    baseline_cost: ArrayLike,
    baseline_resolved: ArrayLike,
    candidate_cost: ArrayLike,
    candidate_resolved: ArrayLike,
    clusters: Clusters,
    bootstrap: Bootstrap,
) -> Estimate | None:
    """Return candidate's cost per resolved cell divided by baseline's, over the same rows.

    The ratio is undefined, and the result None, if the baseline costs nothing or the candidate
    resolves nothing. A resample with an undefined ratio is degenerate.
    """
    columns = [baseline_cost, baseline_resolved, candidate_cost, candidate_resolved]
    return bootstrap.estimate(
        lambda cost_a, count_a, cost_b, count_b: (cost_b * count_a) / (cost_a * count_b),
        columns,
        clusters,
    )
