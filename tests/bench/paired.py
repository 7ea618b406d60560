"""Simulated errors of the paired test: intervals that miss, false "not worse", contradictions.

Both arms resolve a cell with a probability that depends on the instance, and each arm has its own
effect at each instance, so that the repeats of an instance are correlated. Arms that share draws,
as derived ones do, also share a part of the chance of each cell. Probabilities are on the probit
scale. `python -m tests.bench paired --pairs 3 --seed 1 --designs 8x3 500x1` simulates 3,000 runs of
every scenario in these designs; the suite simulates a few.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

from reports.estimates import InstanceLeads, Interval, PairedTable
from reports.statistics.paired import PairedTest, is_non_inferior
from tests.bench.timing import Bound

DESIGNS = ((8, 3), (15, 20), (23, 1), (50, 5), (500, 1))
"""Numbers of instances and repeats."""

LEVEL = 0.05

MISSES = 0.065
"""Largest share of intervals that may miss the true difference."""

CONTRADICTIONS = 0.01
"""Largest share of runs in which p is below 5 % and the interval holds 0, or the reverse."""


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
    shared: float = 0.0
    """Correlation of the chance of both arms in one repeat of an instance."""

    def __str__(self) -> str:
        return (
            f"rate {self.rate}, loss {self.loss}, spread {self.between} and {self.own}, shared "
            f"{self.shared}"
        )


ALIKE = (
    Scenario(0.5, 0.0, 0.5, 0.9),
    Scenario(0.5, 0.0, 0.3, 2.0),
    Scenario(0.5, 0.0, 1.0, 0.0),
    Scenario(0.5, 0.0, 1.0, 0.1, 0.98),
    Scenario(0.5, 0.0, 3.0, 0.45),
    Scenario(0.8, 0.0, 0.8, 0.6),
    Scenario(0.8, 0.0, 1.0, 0.5, 0.7),
    Scenario(0.95, 0.0, 1.0, 1.0),
    Scenario(0.08, 0.0, 1.0, 1.0),
)
"""No difference on average; differences at single instances cancel out, or there are none."""

WORSE = (
    Scenario(0.5, 0.1, 0.3, 1.5),
    Scenario(0.6, 0.1, 3.0, 0.1, 0.98),
    Scenario(0.3, 0.1, 1.0, 1.0, 0.7),
    Scenario(0.9, 0.087, 0.8, 0.6),
    Scenario(0.95, 0.1, 9.0, 0.1, 0.98),
    Scenario(0.97, 0.05, 0.3, 0.3),
    Scenario(0.97, 0.05, 1.5, 0.1),
    Scenario(0.97, 0.05, 6.0, 3.0),
    Scenario(0.99, 0.05, 0.8, 1.0),
    Scenario(0.5, 0.05, 3.0, 0.1),
    Scenario(0.08, 0.05, 1.5, 0.1),
)
"""The candidate is worse by exactly the margin, so that "not worse" is false. Some differ only at
rare instances, of which few samples have one."""


@dataclass(frozen=True)
class Rates:
    """Errors of a simulation, as shares of its runs."""

    runs: int
    rejected: float
    """Runs with a p-value of no difference below 5 %."""
    not_worse: float
    """Runs that show non-inferiority for a margin equal to the loss."""
    covered: float
    """Runs whose interval contains the true difference."""
    contradictory: float
    """Runs in which p-value and interval say different things about no difference."""
    narrowest: float
    """Width of the narrowest interval."""
    width: float
    """Mean width."""


def simulate(instances: int, repeats: int, scenario: Scenario, runs: int, seed: int = 1) -> Rates:
    """Draw an experiment `runs` times, and evaluate it as a report does."""
    generator = np.random.default_rng(seed)
    baseline, candidate = _cells(generator, (runs, instances, repeats), scenario)
    leads = candidate.sum(axis=2) - baseline.sum(axis=2)
    only_baseline = (baseline & ~candidate).sum(axis=(1, 2)).tolist()
    only_candidate = (candidate & ~baseline).sum(axis=(1, 2)).tolist()
    found = [
        _tested(first, second, repeats, tuple(sorted(Counter(row).items())))
        for first, second, row in zip(only_baseline, only_candidate, leads.tolist(), strict=True)
    ]
    intervals = [interval for _, interval in found]
    return Rates(
        runs=runs,
        rejected=_share([p < LEVEL for p, _ in found]),
        not_worse=_share([is_non_inferior(each, scenario.loss) for each in intervals])
        if scenario.loss
        else 0.0,
        covered=_share([each.low <= -scenario.loss <= each.high for each in intervals]),
        contradictory=_share([(p < LEVEL) == (i.low <= 0 <= i.high) for p, i in found]),
        narrowest=min(each.high - each.low for each in intervals),
        width=float(np.mean([each.high - each.low for each in intervals])),
    )


def run(
    _: Path, *, pairs: int, seed: int = 1, designs: Sequence[tuple[int, int]] = DESIGNS
) -> list[Bound]:
    """Simulate all designs and scenarios with `pairs` thousand runs each."""
    figures = []
    for (instances, repeats), scenario in product(designs, ALIKE + WORSE):
        rates = simulate(instances, repeats, scenario, 1000 * pairs, seed)
        figures += _bounds(f"{instances} x {repeats}, {scenario}", scenario, rates)
    return figures


def above(nominal: float, runs: int) -> float:
    """Return a limit that a rate of `nominal` exceeds in one of a thousand simulations."""
    return nominal + 3.1 * float(np.sqrt(nominal * (1 - nominal) / runs))


def _bounds(title: str, scenario: Scenario, rates: Rates) -> list[Bound]:
    limits = {
        "interval misses": (1 - rates.covered, above(MISSES, rates.runs)),
        "contradictions": (rates.contradictory, CONTRADICTIONS),
    }
    if scenario.loss:
        limits["not worse"] = (rates.not_worse, above(LEVEL / 2, rates.runs))
    detail = f"rejected {100 * rates.rejected:.2f} %, mean width {100 * rates.width:.1f} points"
    return [
        Bound(f"{title}: {name}", 100 * found, round(100 * limit, 2), "%", detail)
        for name, (found, limit) in limits.items()
    ]


def _cells(
    generator: np.random.Generator, shape: tuple[int, int, int], scenario: Scenario
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the resolved cells of both arms: runs × instances × repeats."""
    places = (*shape[:2], 1)
    scale = np.sqrt(1 + scenario.between**2 + scenario.own**2)
    shared = scenario.between * generator.normal(size=places)
    shared = shared + np.sqrt(scenario.shared) * generator.normal(size=shape)
    rest = np.sqrt(1 - scenario.shared)
    baseline, candidate = (
        generator.random(shape)
        < ndtr((scale * ndtri(rate) + shared + scenario.own * generator.normal(size=places)) / rest)
        for rate in (scenario.rate, scenario.rate - scenario.loss)
    )
    return baseline, candidate


@lru_cache(maxsize=100_000)
def _tested(
    only_baseline: int, only_candidate: int, repeats: int, leads: tuple[tuple[int, int], ...]
) -> tuple[float, Interval]:
    """Return p-value and interval. Rates do not matter, only differences do."""
    pairs = repeats * sum(instances for _, instances in leads)
    test = PairedTest(
        PairedTable(0, only_baseline, only_candidate, pairs - only_baseline - only_candidate),
        InstanceLeads({(repeats, lead): instances for lead, instances in leads}),
    )
    return test.p_value(), test.interval()


def _share(found: Sequence[bool]) -> float:
    return sum(found) / len(found)
