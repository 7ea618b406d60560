"""The evidence of a running experiment: its mean, its error rate and what stopping by it saves."""

from collections import Counter
from math import comb, factorial

import numpy as np
import pytest
from numpy.typing import NDArray

from reports.statistics.looks import compute_e_value

DECIDED = 20
"""Decides at 5 %."""

RUNS, INSTANCES = 400, 200

Leads = NDArray[np.int64]


def look_after_every_instance(leads: Leads, repeats: int) -> NDArray[np.float64]:
    """Return the evidence after each instance of each run (runs × instances of leads in cells)."""
    known: dict[tuple[int, ...], float] = {}
    sizes = range(-repeats, repeats + 1)
    counts = np.stack([(leads == size).cumsum(axis=1) for size in sizes], axis=2)
    for key in np.unique(counts.reshape(-1, len(sizes)), axis=0):
        differences = {size / repeats: int(n) for size, n in zip(sizes, key, strict=True)}
        known[tuple(map(int, key))] = compute_e_value(differences)
    flat = [known[tuple(map(int, key))] for key in counts.reshape(-1, len(sizes))]
    return np.array(flat).reshape(leads.shape)


def skewed(generator: np.random.Generator, repeats: int) -> Leads:
    """Return leads of equal arms: small ones for the candidate, seldom a large one against it."""
    chances = [1 / (repeats + 1), 0.0, repeats / (repeats + 1)]
    drawn = generator.choice([-repeats, 0, 1], size=(RUNS, INSTANCES), p=chances)
    return np.where(generator.random(drawn.shape) < 0.4, drawn, 0)


def alike(generator: np.random.Generator, repeats: int, copied: float, discordance: float) -> Leads:
    """Return leads of equal arms, whose repeats are copies of the first one with a probability."""
    shares = [discordance / 2, 1 - discordance, discordance / 2]
    own = generator.choice([-1, 0, 1], size=(RUNS, INSTANCES, repeats), p=shares)
    is_copied = generator.random((RUNS, INSTANCES, 1)) < copied
    found: Leads = np.where(is_copied, own[:, :, :1], own).sum(axis=2)
    return found


@pytest.mark.parametrize("signs", [0, 1, 7, 40])
def test_equal_arms_make_evidence_of_mean_one(signs: int) -> None:
    """Over all outcomes of fair coins, the mean is exactly 1."""
    mean = sum(comb(signs, k) * compute_e_value({1: k, -1: signs - k}) for k in range(signs + 1))
    assert mean / 2**signs == pytest.approx(1)


@pytest.mark.parametrize(("ahead", "behind"), [(0, 0), (9, 0), (3, 4), (60, 41)])
def test_without_repeats_it_is_the_beta_mixture(ahead: int, behind: int) -> None:
    """Signs have the likelihood of a coin of any chance, averaged, over that of a fair one."""
    coin = factorial(ahead) * factorial(behind) / factorial(ahead + behind + 1)
    found = compute_e_value({1: ahead, -1: behind, 0: 5})
    assert found == pytest.approx(2 ** (ahead + behind) * coin)


@pytest.mark.full
@pytest.mark.parametrize(
    "design",
    ["1 0 .2", "1 0 .6", "3 0 .4", "3 .9 .4", "skewed 3", "skewed 5"],
)
def test_equal_arms_are_decided_in_five_percent_of_runs_at_most(design: str) -> None:
    """With a look after every instance, alarms stay below the level, however leads are spread."""
    generator = np.random.default_rng(17)
    match design.split():
        case ["skewed", repeats]:
            leads, number = skewed(generator, int(repeats)), int(repeats)
        case [repeats, copied, discordance]:
            number = int(repeats)
            leads = alike(generator, number, float(copied), float(discordance))
    evidence = look_after_every_instance(leads, number)
    assert (evidence.max(axis=1) >= DECIDED).mean() <= 0.05


def test_large_counts_stay_finite() -> None:
    """Thousands of signs in one direction are finite evidence."""
    assert compute_e_value({}) == pytest.approx(1)
    assert 1e300 < compute_e_value({1: 5000}) < float("inf")
    assert compute_e_value(Counter({0.2: 3})) > 1
