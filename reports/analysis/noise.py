"""Where the noise of the leading comparison comes from, and which instances tell arms apart."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from reports.analysis.paired import read_rows
from reports.noise import Noise, Split
from reports.statistics import split_variance
from reports.types import Comparison, Pair

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DIFFERENCES = """
    select instance_id, (b.state = 'resolved')::integer - (a.state = 'resolved')::integer
    from marts.cells as a
    inner join marts.cells as b using (instance_id, repeat)
    where a.arm = $baseline and b.arm = $candidate
"""


def read_noise(connection: DuckDBPyConnection, pair: Comparison | None) -> Noise:
    """Read the parts of the variance. `pair` is the leading comparison."""
    telling = read_rows(connection, "from marts.telling_instances")
    grading, graded_again = (
        _grading(connection, (pair.baseline, pair.candidate)) if pair else (None, 0)
    )
    return Noise(
        instances=pair.leads.instances if pair else 0,
        repeats=pair.table.pairs // pair.leads.instances if pair else 0,
        split=_split(connection, pair) if pair and pair.has_repeats else None,
        grading=grading,
        graded_again=graded_again,
        telling=tuple(row["instance_id"] for row in telling),
        runs=max((row["attempts"] for row in telling), default=0),
    )


def _split(connection: DuckDBPyConnection, pair: Comparison) -> Split | None:
    arms = {"baseline": pair.baseline, "candidate": pair.candidate}
    rows = connection.execute(_DIFFERENCES, arms).fetchall()
    found = split_variance([value for _, value in rows], [instance for instance, _ in rows])
    return found if found and found.total else None


def _grading(connection: DuckDBPyConnection, arms: Pair) -> tuple[float | None, int]:
    """Return the variance of the paired difference between gradings, and the patches behind it.

    Two gradings of a patch differ with a probability of twice the variance of one of them. The
    variances of both arms add up.
    """
    rows = read_rows(connection, "from marts.gradings")
    again = Counter(row["arm"] for row in rows)
    flipped = Counter(row["arm"] for row in rows if row["is_flipped"])
    number = sum(again[arm] for arm in arms)
    if not all(again[arm] for arm in arms):
        return None, number
    return sum(flipped[arm] / again[arm] / 2 for arm in arms), number
