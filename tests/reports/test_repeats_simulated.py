"""Error rates with repeats: a small version of `python -m tests.bench repeats`.

If the rates are as promised, one simulation in a thousand exceeds the tolerances.
"""

import numpy as np
import pytest

from reports.statistics import effective_pairs, mcnemar_power, sign_flip
from tests.bench.repeats import ALIKE, WORSE, Scenario, above, simulate


@pytest.fixture(
    params=[pytest.param(250, marks=pytest.mark.short), pytest.param(1000, marks=pytest.mark.full)],
    ids="{} runs".format,
)
def runs(request: pytest.FixtureRequest) -> int:
    """Return the number of simulated experiments."""
    found: int = request.param
    return found


@pytest.mark.parametrize(("instances", "repeats"), [(50, 5), (15, 20), (8, 3)])
def test_false_rejections_stay_within_a_point_of_the_level(
    runs: int, instances: int, repeats: int
) -> None:
    """False rejections stay within a point of the level even if arms differ at single instances.

    Treating all cells as independent exceeds it.
    """
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
    """False non-inferiority stays below the nominal rate.

    The interval has the promised coverage and never a width near zero.
    """
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
    """The stated power never clearly exceeds the simulated power of the report's test."""
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
