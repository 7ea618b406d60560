"""Several comparisons at once."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the adjusted p-values of a family of hypotheses, in the given order.

    Rejecting those at or below a level keeps the chance of any false rejection at that level,
    however the tests depend on each other. Raise ValueError for a value outside [0, 1].

    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian
    Journal of Statistics 6, 65-70.
    """
    if not all(0 <= p <= 1 for p in p_values):
        raise ValueError(f"{p_values}: a p-value is between 0 and 1")
    if len(p_values) < 2:
        return tuple(p_values)
    from statsmodels.stats.multitest import multipletests  # takes a second to import

    return tuple(float(p) for p in multipletests(p_values, method="holm")[1])
