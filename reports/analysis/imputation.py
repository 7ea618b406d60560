"""What unknown costs could do to the ratio of cost of two arms: the sensitivity to them.

Little, R. J. A. and Rubin, D. B. (2019). Statistical Analysis with Missing Data. 3rd edition,
Wiley, chapter 4; Manski, C. F. (2003). Partial Identification of Probability Distributions.
Springer, chapter 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from reports.types import Interval, UnknownCosts

Cost = tuple[float | None, float | None]
"""Of one cell: the cost if it is fully known, and what is known of it."""


def impute(baseline: Sequence[Cost], candidate: Sequence[Cost]) -> UnknownCosts | None:
    """The ratio of cost with the unknown costs put in, over pairs that ran in both arms.

    None where nothing is unknown, and where an arm has no known cost above 0.
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
    """The sum with `instead` for what is not known, and never less than what is."""
    return fsum(max(instead, part or 0.0) if whole is None else whole for whole, part in costs)
