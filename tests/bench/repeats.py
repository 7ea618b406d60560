"""Simulated error rates with repeats: false rejections, false non-inferiority, missed intervals.

Both arms resolve a cell with a probability that depends on the instance, and each arm has its own
effect at each instance, so that the repeats of an instance are correlated. Probabilities are on the
probit scale. `python -m tests.bench repeats` runs all designs; the suite runs a few.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

from reports.statistics import is_non_inferior, mcnemar_exact, newcombe_interval, sign_flip
from reports.types import Interval, PairedTable, PValues
from tests.bench.timing import Bound

DESIGNS = ((50, 5), (15, 20), (8, 3), (15, 2), (15, 4), (23, 3), (100, 3), (8, 10), (50, 1))
"""Numbers of instances and repeats."""

LEVEL = 0.05


@dataclass(frozen=True)
class Scenario:
    """The true behaviour of two arms."""

    rate: float
    """Resolution rate of the baseline."""
    loss: float
    """Difference by which the candidate's rate is lower."""
    between: float
    """Standard deviation of an instance's difficulty for both arms."""
    own: float
    """Standard deviation of an instance's difficulty for one arm only."""

    def __str__(self) -> str:
        return f"rate {self.rate}, loss {self.loss}, spread {self.between} and {self.own}"


ALIKE = (
    Scenario(0.5, 0.0, 0.5, 0.9),
    Scenario(0.5, 0.0, 0.8, 0.6),
    Scenario(0.5, 0.0, 0.3, 2.0),
    Scenario(0.8, 0.0, 0.8, 0.6),
    Scenario(0.5, 0.0, 1.0, 0.0),
)
"""No difference on average; differences at single instances cancel out, or there are none."""

WORSE = (
    Scenario(0.9, 0.087, 0.8, 0.6),
    Scenario(0.97, 0.05, 0.3, 0.3),
    Scenario(0.97, 0.05, 1.5, 0.1),
    Scenario(0.99, 0.05, 0.8, 1.0),
    Scenario(0.5, 0.05, 3.0, 0.1),
    Scenario(0.5, 0.1, 0.3, 1.5),
    Scenario(0.08, 0.05, 1.5, 0.1),
)
"""The candidate is worse by exactly the margin, so that "not worse" is false."""


@dataclass(frozen=True)
class Rates:
    """Error rates of a simulation, as shares of its runs."""

    runs: int
    exact: float
    """Rejections by the exact sign-flip test."""
    mid_p: float
    """Rejections by the mid-p version of the test."""
    independent: float
    """Rejections by McNemar's test if every repeat counts as a separate pair."""
    not_worse: float
    """Runs that show non-inferiority for a margin equal to the loss."""
    covered: float
    """Runs whose interval contains the true difference."""
    narrowest: float
    """Width of the narrowest interval."""


def simulate(instances: int, repeats: int, scenario: Scenario, runs: int, seed: int = 1) -> Rates:
    """Draw an experiment `runs` times, and evaluate it as a report does."""
    generator = np.random.default_rng(seed)
    baseline, candidate = _cells(generator, (runs, instances, repeats), scenario)
    leads = candidate.sum(axis=2) - baseline.sum(axis=2)
    tests = [_tested(tuple(sorted(Counter(row).items()))) for row in leads.tolist()]
    tables = np.stack([
        (first & second).sum(axis=(1, 2))
        for first in (baseline, ~baseline) for second in (candidate, ~candidate)
    ], axis=1).tolist()  # fmt: skip
    intervals = [_interval(table[0], table[1], table[2], table[3], instances) for table in tables]
    naive = [mcnemar_exact(table[1], table[2]) for table in tables]
    return Rates(
        runs=runs,
        exact=_share([test.exact < LEVEL for test in tests]),
        mid_p=_share([test.mid_p < LEVEL for test in tests]),
        independent=_share([p < LEVEL for p in naive]),
        not_worse=_share([is_non_inferior(each, scenario.loss) for each in intervals])
        if scenario.loss
        else 0.0,
        covered=_share([each.low <= -scenario.loss <= each.high for each in intervals]),
        narrowest=min(each.high - each.low for each in intervals),
    )


def run(_: Path, *, pairs: int) -> list[Bound]:
    """Simulate all designs and scenarios with `pairs` thousand runs each."""
    figures = []
    for instances, repeats in DESIGNS:
        for scenario in ALIKE + WORSE:
            rates = simulate(instances, repeats, scenario, 1000 * pairs)
            title = f"{instances} x {repeats}, {scenario}"
            figures += _bounds(title, scenario, rates)
    return figures


def above(nominal: float, runs: int) -> float:
    """Return a limit that a rate of `nominal` exceeds in one of a thousand simulations."""
    return nominal + 3.1 * float(np.sqrt(nominal * (1 - nominal) / runs))


def _bounds(title: str, scenario: Scenario, rates: Rates) -> list[Bound]:
    """Return the bounds: rejections may exceed the level by one point, other errors may not."""
    missed = Bound(
        f"{title}: interval misses",
        100 * (1 - rates.covered),
        round(100 * above(0.05, rates.runs), 2),
        "%",
        f"narrowest {100 * rates.narrowest:.1f} points",
    )
    if scenario.loss:
        limit = round(100 * above(0.025, rates.runs), 2)
        detail = "nominal 2.5 %"
        return [Bound(f"{title}: not worse", 100 * rates.not_worse, limit, "%", detail), missed]
    detail = f"exact {100 * rates.exact:.2f} %, all cells {100 * rates.independent:.2f} %"
    limit = round(100 * above(0.06, rates.runs), 2)
    return [Bound(f"{title}: rejected by mid-p", 100 * rates.mid_p, limit, "%", detail), missed]


def _cells(
    generator: np.random.Generator, shape: tuple[int, int, int], scenario: Scenario
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the resolved cells of both arms: runs × instances × repeats."""
    places = (*shape[:2], 1)
    scale = np.sqrt(1 + scenario.between**2 + scenario.own**2)
    shared = scenario.between * generator.normal(size=places)
    baseline, candidate = (
        generator.random(shape)
        < ndtr(scale * ndtri(rate) + shared + scenario.own * generator.normal(size=places))
        for rate in (scenario.rate, scenario.rate - scenario.loss)
    )
    return baseline, candidate


@cache
def _tested(leads: Sequence[tuple[int, int]]) -> PValues:
    return sign_flip(dict(leads))


@cache
def _interval(
    both: int, only_baseline: int, only_candidate: int, neither: int, instances: int
) -> Interval:
    table = PairedTable(both, only_baseline, only_candidate, neither)
    return newcombe_interval(table, pairs=instances)


def _share(found: Sequence[bool]) -> float:
    return sum(found) / len(found)
