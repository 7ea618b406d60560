"""Error rates with repeats: a small version of `python -m tests.bench repeats`.

One simulation in a thousand exceeds the tolerances if the rate is as promised.
"""

import numpy as np
import pytest

from reports.statistics import effective_pairs, mcnemar_power, sign_flip
from tests.bench.repeats import ALIKE, WORSE, Scenario, above, simulate


@pytest.fixture(params=[250, pytest.param(1000, marks=pytest.mark.full)], ids="{} runs".format)
def runs(request: pytest.FixtureRequest) -> int:
    """Return how often an experiment is drawn."""
    found: int = request.param
    return found


@pytest.mark.parametrize(("instances", "repeats"), [(50, 5), (15, 20), (8, 3)])
def test_false_rejections_stay_within_a_point_of_the_level(
    runs: int, instances: int, repeats: int
) -> None:
    """With effects of arms at single instances; taking cells for independent does not do it."""
    rates = simulate(instances, repeats, ALIKE[0], runs)
    assert rates.exact <= rates.mid_p <= above(0.06, runs)
    assert rates.mid_p >= 0.04 - (above(0.04, runs) - 0.04)
    if instances > 8:
        assert rates.independent > above(0.06, runs)


@pytest.mark.parametrize(("instances", "repeats"), [(8, 3), (15, 2), (15, 20)])
@pytest.mark.parametrize("scenario", WORSE[:3], ids=str)
def test_false_non_inferiority_is_at_most_nominal(
    runs: int, instances: int, repeats: int, scenario: Scenario
) -> None:
    """And the interval holds the truth, and has a width in every run."""
    rates = simulate(instances, repeats, scenario, runs)
    assert rates.not_worse <= above(0.025, runs)
    assert rates.covered >= 1 - above(0.05, runs)
    assert rates.narrowest > 0.1


@pytest.mark.parametrize(
    ("instances", "repeats", "correlation"),
    [(4, 50, 0.0), (8, 3, 0.0), (15, 20, 0.2), (50, 5, 0.5)],
)
def test_the_power_of_a_plan_with_repeats_is_not_overstated(
    runs: int, instances: int, repeats: int, correlation: float
) -> None:
    """Against the test that the report will make: all repeats alike, or each for itself."""
    discordance = 0.4
    independent = instances * repeats / (1 + (repeats - 1) * correlation)
    difference = 2.5 * (discordance / independent) ** 0.5
    generator = np.random.default_rng(3)
    chances = [(discordance - difference) / 2, 1 - discordance, (discordance + difference) / 2]
    cells = generator.choice([-1, 0, 1], p=chances, size=(runs, instances, repeats))
    alike = generator.random((runs, instances, 1)) < correlation
    leads = np.where(alike, cells[:, :, :1], cells).sum(axis=2)
    found = [
        sign_flip(dict(zip(*np.unique(row, return_counts=True), strict=True))) for row in leads
    ]
    power = sum(p.exact <= 0.05 for p in found) / runs
    pairs = effective_pairs(instances, repeats, correlation)
    assert mcnemar_power(pairs, discordance, difference) <= power + 0.08
