"""Statistics of repeated attempts at an instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.estimates import Split
from reports.statistics.bootstrap import cluster_totals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from reports.statistics.bootstrap import Clusters


def pass_at_k(attempts: ArrayLike, resolved: ArrayLike, k: int) -> NDArray[np.float64]:
    """Return the probability that at least one of `k` attempts resolves an instance.

    The function works element by element. The estimate is unbiased: it is the share of all
    choices of `k` out of `attempts` that include one of the `resolved`.

    Chen, M. et al. (2021). Evaluating large language models trained on code. arXiv:2107.03374,
    section 2.1.
    """
    import numpy as np
    from scipy.special import comb

    tried, passed = np.asarray(attempts), np.asarray(resolved)
    return np.asarray(1 - comb(tried - passed, k) / comb(tried, k), dtype=np.float64)


def pass_all_k(attempts: ArrayLike, resolved: ArrayLike, k: int) -> NDArray[np.float64]:
    """Return the probability that all of `k` attempts resolve an instance, often written pass^k.

    The function works element by element. The estimate is unbiased: it is the share of all
    choices of `k` out of `attempts` that are among the `resolved`.

    Yao, S. et al. (2024). tau-bench: a benchmark for tool-agent-user interaction in real-world
    domains. arXiv:2406.12045, section 4.
    """
    import numpy as np

    tried, passed = np.asarray(attempts), np.asarray(resolved)
    return 1 - pass_at_k(tried, tried - passed, k)


def split_variance(values: ArrayLike, instances: Clusters) -> Split | None:
    """Split the variance of values, such as paired differences of verdicts, by instance.

    A row is a value and its instance. The parts are the moment estimates of a one-way model with
    random effects; a part between instances below 0 counts as 0. They follow the law of total
    variance: Var(E[value | instance]) and E[Var(value | instance)]. Return None without an
    instance that repeats, or with all values equal.

    Searle, S. R., Casella, G. and McCulloch, C. E. (1992). Variance Components. Wiley, chapter
    3. Unequal numbers of repeats: Donner, A. (1986). A review of inference procedures for the
    intraclass correlation coefficient in the one-way random effects model. International
    Statistical Review 54, 67-82. For evaluations of language models: Miller, E. (2024). Adding
    error bars to evals. arXiv:2411.00640, section 3.
    """
    import numpy as np

    rows = np.asarray(values, dtype=np.float64)
    totals = cluster_totals([np.ones(len(rows)), rows, rows**2], instances)
    sizes, sums, squares = totals.T
    groups, count = len(totals), float(sizes.sum())
    if groups < 2 or count == groups:
        return None
    within = float((squares - sums**2 / sizes).sum()) / (count - groups)
    between = float((sums**2 / sizes).sum() - sums.sum() ** 2 / count) / (groups - 1)
    size = (count - float((sizes**2).sum()) / count) / (groups - 1)
    split = Split(max(0.0, (between - within) / size), max(0.0, within))
    return split if split.total > 0 else None
