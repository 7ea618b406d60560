"""Several comparisons at once."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the adjusted p-values of a family of hypotheses, in the given order.

    Rejecting those at or below a level keeps the chance of any false rejection at that level,
    however the tests depend on each other.

    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian
    Journal of Statistics 6, 65-70.
    """
    import numpy as np  # statsmodels' function would take three quarters of a second to import

    checked = np.asarray(p_values, dtype=float)
    order = np.argsort(checked, kind="stable")
    scaled = np.sort(checked) * np.arange(len(checked), 0, -1)
    adjusted = np.empty_like(checked)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return tuple(adjusted.tolist())


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the adjusted p-values of a search through many hypotheses, in the given order.

    Rejecting those at or below a level keeps the expected share of false rejections among all
    rejections at that level, for tests that are independent or positively dependent.

    Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate: a practical and
    powerful approach to multiple testing. Journal of the Royal Statistical Society B 57, 289-300.
    """
    import numpy as np  # scipy's function would take half a second to import

    checked = np.asarray(p_values, dtype=float)
    count = len(checked)
    order = np.argsort(checked, kind="stable")[::-1]
    scaled = checked[order] * count / np.arange(count, 0, -1)
    adjusted = np.empty_like(checked)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled), 1.0)
    return tuple(adjusted.tolist())
