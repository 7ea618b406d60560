"""Sensitivity of the ratio of cost of two arms to unknown costs.

Little, R. J. A. and Rubin, D. B. (2019). Statistical Analysis with Missing Data. 3rd edition,
Wiley, chapter 4; Manski, C. F. (2003). Partial Identification of Probability Distributions.
Springer, chapter 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from reports.types import Interval, UnknownCosts

Cost = tuple[float | None, float | None]
"""Cost of one cell if fully known, and the known part of its cost."""


def impute(baseline: Sequence[Cost], candidate: Sequence[Cost]) -> UnknownCosts | None:
    """Return the ratio of cost with unknown costs imputed, over pairs that ran in both arms.

    Return None if nothing is unknown, or if an arm has no known cost above 0.
    """
    unknown = sum(whole is None for whole, _ in (*baseline, *candidate))
    known = [[whole for whole, _ in arm if whole is not None] for arm in (baseline, candidate)]
    if not unknown or not all(map(any, known)):
        return None
    means = [fsum(costs) / len(costs) for costs in known]
    most = [max(costs) for costs in known]
    low = _total(baseline, 0), _total(candidate, 0)
    high = _total(baseline, most[0]), _total(candidate, most[1])
    return UnknownCosts(
        cells=unknown,
        pairs=len(baseline),
        at_mean=_total(candidate, means[1]) / _total(baseline, means[0]),
        at_maximum=high[1] / high[0],
        bounds=Interval(low[1] / high[0], high[1] / low[0]),
    )


def _total(costs: Sequence[Cost], instead: float) -> float:
    """Return the sum with `instead` for each unknown cost, but never less than its known part."""
    return fsum(max(instead, part or 0.0) if whole is None else whole for whole, part in costs)
