"""Power of the report's test: enumeration, simulation and its own symmetries."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from reports.estimates import InstanceLeads, PairedTable
from reports.statistics.paired import PairedTest
from reports.statistics.power import (
    Design,
    detection_power,
    instances_needed,
    smallest_detectable_difference,
)
from tests.reports.statistics.leads import single_leads

plans = st.tuples(st.integers(1, 40), st.floats(0.05, 1), st.floats(0, 1))


def once(instances: int, discordance: float, difference: float) -> Design:
    """Return a design without repeats."""
    return Design(instances, 1, discordance, difference, 0.0)


@settings(max_examples=15, deadline=None)
@given(plans)
def test_power_is_the_sum_over_all_tables(plan: tuple[int, float, float]) -> None:
    """The power is the sum of the probabilities of all tables that the report's test rejects."""
    pairs, discordance, share = plan
    design = once(pairs, discordance, share * discordance)
    better = (1 + share) / 2
    expected = sum(
        binom.pmf(discordant, pairs, discordance) * binom.pmf(first, discordant, better)
        for discordant in range(pairs + 1)
        for first in range(discordant + 1)
        if rejected(first, discordant - first, pairs)
    )
    assert detection_power(design) == pytest.approx(expected, abs=1e-9)


def rejected(first: int, second: int, pairs: int) -> bool:
    """Return True if the report's test rejects no difference."""
    table = PairedTable(0, first, second, pairs - first - second)
    return PairedTest(table, single_leads(table)).p_value() < 0.05


@pytest.mark.parametrize(
    "design",
    [
        Design(15, 20, 0.3, 0.15, 0.5),
        Design(15, 20, 0.3, 0.25, 0.8),
        Design(50, 5, 0.3, 0.1, 0.5),
        Design(50, 5, 0.3, 0.1, 0.0),
        Design(8, 3, 0.5, 0.4, 0.3),
    ],
    ids=str,
)
@pytest.mark.full
def test_power_with_repeats_is_that_of_simulated_reports(design: Design) -> None:
    """The power is within 2 points of the rejections in another simulation, cell by cell."""
    runs = 3000
    generator = np.random.default_rng(3)
    first = (design.discordance - design.difference) / 2
    chances = [first, 1 - design.discordance, design.discordance - first]
    shape = (runs, design.instances, design.repeats)
    cells = generator.choice([-1, 0, 1], p=chances, size=shape)
    common = generator.choice([-1, 0, 1], p=chances, size=(runs, design.instances, 1))
    cells = np.where(generator.random(shape) < design.correlation**0.5, common, cells)
    found = 0
    for run in cells:
        only = int((run < 0).sum()), int((run > 0).sum())
        leads, counts = np.unique(run.sum(axis=1), return_counts=True)
        test = PairedTest(
            PairedTable(0, *only, run.size - sum(only)),
            InstanceLeads(
                {
                    (design.repeats, lead): count
                    for lead, count in zip(leads.tolist(), counts.tolist(), strict=True)
                }
            ),
        )
        found += test.p_value() < 0.05
    assert detection_power(design) == pytest.approx(found / runs, abs=0.02 + 2 * 0.009)


def test_power_at_its_limits() -> None:
    """The power is at most the level without a difference, and grows with pairs and difference."""
    assert 0.01 < detection_power(once(500, 0.3, 0.0)) <= 0.05
    by_pairs = [detection_power(once(pairs, 0.3, 0.1)) for pairs in (50, 100, 200, 400, 3000)]
    assert by_pairs == sorted(by_pairs)
    assert by_pairs[-1] == pytest.approx(1.0)
    by_difference = [detection_power(once(200, 0.3, step / 20)) for step in range(7)]
    assert by_difference == sorted(by_difference)
    assert detection_power(once(100, 0.0, 0.0)) == 0.0
    assert detection_power(once(0, 0.3, 0.1)) == 0.0


@pytest.mark.parametrize(
    ("discordance", "difference", "power"),
    [(0.3, 0.1, 0.8), (0.2, 0.1, 0.8), (0.1, 0.08, 0.9), (0.5, 0.3, 0.8), (0.05, 0.05, 0.8)],
)
def test_the_instances_needed_are_just_enough(
    discordance: float, difference: float, power: float
) -> None:
    """The number of instances has the power, and one fewer has not."""
    design = once(0, discordance, difference)
    found = instances_needed(design, power)
    assert found is not None
    assert detection_power(replace(design, instances=found)) >= power
    assert detection_power(replace(design, instances=found - 1)) < power


@pytest.mark.parametrize("instances", [40, 150, 500])
def test_the_smallest_detectable_difference_has_the_power(instances: int) -> None:
    """The smallest detectable difference has exactly the requested power."""
    found = smallest_detectable_difference(once(instances, 0.4, 0.0), 0.8)
    assert found is not None
    assert detection_power(once(instances, 0.4, found)) == pytest.approx(0.8, abs=1e-6)
    assert detection_power(once(instances, 0.4, found - 1e-4)) < 0.8


def test_too_few_pairs_detect_nothing() -> None:
    """Too few pairs, or none that can differ, detect no difference."""
    assert smallest_detectable_difference(once(4, 1.0, 0.0), 0.8) is None
    assert smallest_detectable_difference(once(500, 0.0, 0.0), 0.8) is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((-1, 1, 0.3, 0.1, 0.0), "-1 instances"),
        ((9, 0, 0.3, 0.1, 0.0), "0 repeats"),
        ((9, 1, 1.2, 0.1, 0.0), "discordance of 1.2"),
        ((9, 1, 0.1, 0.2, 0.0), "cannot be larger"),
        ((9, 2, 0.3, 0.1, 1.5), "correlation of 1.5"),
    ],
)
def test_impossible_designs_are_refused(arguments: tuple, reason: str) -> None:
    """Impossible numbers raise ValueError with the wrong value."""
    with pytest.raises(ValueError, match=reason):
        Design(*arguments)
