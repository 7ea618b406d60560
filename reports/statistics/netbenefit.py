"""Net benefit: the value of the resolved instances, less the cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_TIED = 1e-9
"""Net benefits that differ by less, relative to their parts, are equal up to rounding."""


def net_benefit(value: float, effect: Numbers, cost: Numbers) -> Numbers:
    """Return the monetary net benefit, element by element: `value * effect - cost`.

    Stinnett, A. A. and Mullahy, J. (1998). Net health benefits: a new framework for the analysis
    of uncertainty in cost-effectiveness analysis. Medical Decision Making 18, S68-S80.
    """
    return value * effect - cost


def acceptability(values: Sequence[float], effects: Numbers, costs: Numbers) -> Numbers:
    """Return the share of resamples in which each option has the highest net benefit.

    `effects` and `costs` have one row per resample and one column per option. The result has one
    row per value of an effect, and its rows add up to 1: options that tie share a resample. An
    option whose cost is not a number is never the best. This is the cost-effectiveness
    acceptability curve of each option.

    van Hout, B. A., Al, M. J., Gordon, G. S. and Rutten, F. F. H. (1994). Costs, effects and
    C/E-ratios alongside a clinical trial. Health Economics 3, 309-319. Several options: Fenwick,
    E., Claxton, K. and Sculpher, M. (2001). Representing uncertainty: the role of
    cost-effectiveness acceptability curves. Health Economics 10, 779-787.
    """
    import numpy as np

    # One row per option: comparing long rows is several times faster than comparing short ones.
    effect = np.ascontiguousarray(effects.T)
    cost = np.ascontiguousarray(np.where(np.isnan(costs), np.inf, costs).T)
    dearest = np.max(cost, where=np.isfinite(cost), initial=0.0)
    rows = []
    for value in values:
        benefit = net_benefit(value, effect, cost)
        is_best = benefit >= benefit.max(axis=0) - _TIED * (value + dearest)
        rows.append((is_best / is_best.sum(axis=0)).mean(axis=1))
    return np.array(rows)


def select_preferred(
    values: Sequence[float], effects: Sequence[float], costs: Sequence[float]
) -> list[int]:
    """Return the option with the highest mean net benefit at each value of an effect.

    The shares of these options are the acceptability frontier. The option that is most often the
    best may be another one if net benefits are skewed. Of options that tie, the result has the
    cheapest.

    Fenwick, E., Claxton, K. and Sculpher, M. (2001), as above.
    """
    chosen = []
    for value in values:
        benefits = [value * effect - cost for effect, cost in zip(effects, costs, strict=True)]
        least = max(benefits) - _TIED * (value + max(costs))
        tied = [i for i, benefit in enumerate(benefits) if benefit >= least]
        chosen.append(min(tied, key=lambda i: (costs[i], i)))
    return chosen
