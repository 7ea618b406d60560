"""Resampling of whole clusters, for any statistic that is a function of sums.

A row is a cell or a pair of cells. Clusters are drawn with replacement. A cluster is an
instance, so that its repeats and both its arms stay together, or a repository.

The interval is the expanded percentile interval. Plain percentiles are too narrow by the
factor between a normal quantile and Student's, which matters for a dozen instances and
vanishes for hundreds. BCa has no better coverage for ratios of skewed costs.

Field, C. A. and Welsh, A. H. (2007). Bootstrapping clustered data. Journal of the Royal
Statistical Society B 69, 369-390.
Hesterberg, T. C. (2015). What teachers should know about the bootstrap. The American
Statistician 69, 371-386, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING

from reports.estimates import TAIL, Estimate, Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Numbers = NDArray[np.float64]
    Counts = NDArray[np.unsignedinteger]
    Statistic = Callable[..., Numbers]
    Clusters = Sequence[str] | Sequence[int] | NDArray[np.int64]
    """The name or number of each row's cluster."""

DRAWN_AT_ONCE = 400_000
"""Number of clusters drawn in one batch, which sets the number of resamples per batch. All columns
are read once per batch."""

DRAWS_KEPT = 50_000_000
"""Up to this number, draws (50 or 100 MB) are cached for all statistics of a report."""

DRAWS_WANTED = 20_000_000
"""Number of draws after which `settings_for` takes fewer resamples."""

FEWEST_RESAMPLES = 1_000
"""Number of resamples that `settings_for` takes of any number of clusters."""

FLOATS_KEPT = 6_000_000
"""Up to this number, cached draws (48 MB) are floats, so that no statistic has to convert them."""


@dataclass(frozen=True)
class Bootstrap:
    """Resampling with a seed. The same seed gives the same interval, for any order of the rows."""

    resamples: int = 10_000
    seed: int = 1

    def estimate(
        self, statistic: Statistic, columns: Sequence[ArrayLike], clusters: Clusters
    ) -> Estimate | None:
        """Return a statistic of the columns' sums over the rows, with its interval.

        `statistic` takes one array of sums per column and works element by element. A division
        by 0 makes a resample degenerate. `clusters` names the cluster of each row. Return None
        if the statistic itself is not a finite number, for example without rows.

        Raises:
            ValueError: a column does not have the length of `clusters`.
        """
        import numpy as np

        totals = cluster_totals(columns, clusters)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(statistic(*totals.sum(axis=0)))
            if not np.isfinite(value):
                return None
            drawn = statistic(*self.sums(totals).T)
        return Estimate(
            value=value,
            interval=self.interval(drawn, len(totals)),
            clusters=len(totals),
            degenerate=int(np.count_nonzero(~np.isfinite(drawn))),
        )

    def means(self, values: Numbers) -> list[Estimate]:
        """Return the mean over the clusters of each column, clusters × columns, with its interval.

        One product of matrices serves all columns.
        """
        clusters = len(values)
        drawn = self.sums(values) / clusters
        return [
            Estimate(float(mean), self.interval(of_column, clusters), clusters, degenerate=0)
            for mean, of_column in zip(values.mean(axis=0), drawn.T, strict=True)
        ]

    def sums(self, totals: Numbers) -> Numbers:
        """Return the sums of each resample, resamples × columns, of clusters × columns."""
        import numpy as np

        draws: Callable[..., Iterable[NDArray[np.uint16] | Numbers]]
        draws = _get_draws if self.resamples * len(totals) <= DRAWS_KEPT else _draws
        return np.concatenate(
            [counts @ totals for counts in draws(self.resamples, len(totals), self.seed)]
        )

    def interval(self, drawn: Numbers, clusters: int) -> Interval:
        """Return percentiles of a statistic over the resamples of this number of clusters.

        An undefined one counts as beyond either limit.
        """
        import numpy as np

        if clusters == 1:  # all resamples are equal, which proves nothing
            return Interval(-np.inf, np.inf)
        tail = expand_tail(TAIL, clusters)
        undefined = np.isnan(drawn)
        low = np.quantile(np.where(undefined, -np.inf, drawn), tail, method="lower")
        high = np.quantile(np.where(undefined, np.inf, drawn), 1 - tail, method="higher")
        return Interval(float(low), float(high))


def _draws(resamples: int, clusters: int, seed: int) -> Iterator[Counts]:
    """Yield the counts of each cluster in each resample: resamples × clusters, in batches."""
    import numpy as np

    generator = np.random.default_rng(seed)
    size = max(1, DRAWN_AT_ONCE // clusters)
    for start in range(0, resamples, size):
        rows = min(size, resamples - start)
        places = generator.integers(clusters, size=(rows, clusters))
        places += clusters * np.arange(rows)[:, np.newaxis]
        counts = np.bincount(places.ravel(), minlength=rows * clusters)
        smallest = np.min_scalar_type(counts.max())
        yield counts.reshape(rows, clusters).astype(smallest)


def settings_for(clusters: int) -> Bootstrap:
    """Return the settings for a number of clusters.

    With thousands of clusters, the intervals are so narrow that fewer resamples place their
    limits as well: at 1,000, the random error of a limit is below a tenth of a standard error.
    """
    most = Bootstrap().resamples
    wanted = DRAWS_WANTED // max(1, clusters)
    return Bootstrap(resamples=min(most, max(FEWEST_RESAMPLES, wanted)))


@lru_cache(maxsize=4)
def _get_draws(resamples: int, clusters: int, seed: int) -> tuple[Counts | Numbers, ...]:
    """Cache `_draws`, for all statistics of a report with the same clusters."""
    drawn = _draws(resamples, clusters, seed)
    if resamples * clusters > FLOATS_KEPT:
        return tuple(drawn)
    return tuple(counts.astype("float64") for counts in drawn)


def cluster_totals(columns: Sequence[ArrayLike], clusters: Clusters) -> Numbers:
    """Return the sums of each column within each cluster: clusters, by name, × columns."""
    import numpy as np

    _, index = np.unique(np.asarray(clusters), return_inverse=True)
    values = [np.asarray(column, dtype=np.float64) for column in columns]
    return np.column_stack([np.bincount(index, weights=column) for column in values])


def expand_tail(tail: float, clusters: float) -> float:
    """Return the percentile that corrects for estimating the spread from few clusters."""
    from scipy.special import ndtr, stdtrit

    quantile = float(stdtrit(clusters - 1, tail))
    return float(ndtr(quantile * sqrt(clusters / (clusters - 1))))
