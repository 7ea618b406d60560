"""Several comparisons at once."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the adjusted p-values of a family of hypotheses, in the given order.

    Rejecting those at or below a level keeps the chance of any false rejection at that level,
    however the tests depend on each other. Raise ValueError for a value outside [0, 1].

    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian
    Journal of Statistics 6, 65-70.
    """
    return _adjusted(p_values, "holm")


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the adjusted p-values of a search through many hypotheses, in the given order.

    Rejecting those at or below a level keeps the expected share of false rejections among all
    rejections at that level, for tests that are independent or positively dependent. Raise
    ValueError for a value outside [0, 1].

    Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate: a practical and
    powerful approach to multiple testing. Journal of the Royal Statistical Society B 57, 289-300.
    """
    return _adjusted(p_values, "fdr_bh")


def _adjusted(p_values: Sequence[float], method: str) -> tuple[float, ...]:
    if not all(0 <= p <= 1 for p in p_values):
        raise ValueError(f"{p_values}: a p-value is between 0 and 1")
    if len(p_values) < 2:
        return tuple(p_values)
    from statsmodels.stats.multitest import multipletests  # takes a second to import

    return tuple(float(p) for p in multipletests(p_values, method=method)[1])
