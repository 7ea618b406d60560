"""The evidence of a running experiment: its mean, its error rate and its gain."""

from math import comb

import numpy as np
import pytest
from numpy.typing import NDArray

from reports.statistics import PairedTest, paired_e_value, single_leads
from reports.types import PairedTable

DECIDED = 20
"""Decides at 5 %."""

Signs = NDArray[np.int64]


def look_after_every_cell(signs: Signs) -> NDArray[np.float64]:
    """Return the evidence after each instance of each run: runs × instances. 0 is no sign."""
    ahead, behind = (signs == 1).cumsum(axis=1), (signs == -1).cumsum(axis=1)
    most = signs.shape[1] + 1
    values = np.array(
        [[paired_e_value(a, b) if a + b < most else 0 for b in range(most)] for a in range(most)]
    )
    found: NDArray[np.float64] = values[ahead, behind]
    return found


@pytest.mark.parametrize("signs", [0, 1, 7, 40])
def test_equal_arms_make_evidence_of_mean_one(signs: int) -> None:
    """Over all outcomes of fair coins, the mean is exactly 1."""
    mean = sum(comb(signs, k) * paired_e_value(k, signs - k) for k in range(signs + 1)) / 2**signs
    assert mean == pytest.approx(1)


@pytest.mark.parametrize(
    ("repeats", "alike", "discordance"),
    [(1, 0.0, 0.2), (1, 0.0, 0.6), (5, 0.0, 0.4), (5, 0.9, 0.4)],
)
def test_equal_arms_are_decided_in_five_percent_of_runs_at_most(
    repeats: int, alike: float, discordance: float
) -> None:
    """With a look after every instance, false alarms stay below the level; those of p do not."""
    generator = np.random.default_rng(17)
    runs, instances = 2000, 200
    own = generator.choice(
        [-1, 0, 1],
        size=(runs, instances, repeats),
        p=[discordance / 2, 1 - discordance, discordance / 2],
    )
    is_copied = generator.random((runs, instances, 1)) < alike
    leads = np.where(is_copied, own[:, :, :1], own).sum(axis=2)
    signs = np.sign(leads)
    assert (look_after_every_cell(signs).max(axis=1) >= DECIDED).mean() <= 0.05
    if repeats == 1:
        ahead, behind = (signs == 1).cumsum(axis=1), (signs == -1).cumsum(axis=1)
        alarms = 0
        for first, second in zip(ahead[:40], behind[:40], strict=True):
            alarms += any(
                PairedTest(table, single_leads(table)).p_value() < 0.05
                for a, b, n in zip(first[9::10], second[9::10], range(10, 201, 10), strict=True)
                for table in [PairedTable(int(n - a - b), int(b), int(a), 0)]
            )
        assert alarms / 40 > 0.1


def test_a_clear_difference_is_decided_early() -> None:
    """Where one arm leads at three of four differing instances, most runs end in half the time."""
    generator = np.random.default_rng(23)
    signs = generator.choice([-1, 0, 1], size=(2000, 200), p=[0.1, 0.6, 0.3])
    is_decided = look_after_every_cell(signs) >= DECIDED
    assert is_decided.any(axis=1).mean() > 0.85
    assert is_decided[:, :100].any(axis=1).mean() > 0.5


def test_large_counts_stay_finite() -> None:
    """Thousands of signs in one direction are finite evidence; counts below 0 are refused."""
    assert paired_e_value(0, 0) == 1
    assert 1e300 < paired_e_value(5000, 0) < float("inf")
    with pytest.raises(ValueError, match="below 0"):
        paired_e_value(-1, 0)
