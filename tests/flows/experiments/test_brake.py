"""A run whose first cells all end as infrastructure for one cause is stopped."""

from dataclasses import replace

import pytest

from flows.experiments import declaration
from flows.experiments.brake import Brake
from flows.experiments.cell_state import End
from flows.experiments.cells import Cell, Place
from tests.flows.experiments.test_keys import INSTANCE

EXPERIMENT = declaration.parse(
    {
        "name": "x",
        "model": {"provider": "simulated", "skill": 0.5},
        "arms": [{"name": name, "agent": name} for name in ("mini", "gold")],
    },
    "test",
)


def cell(number: int, arm: str = "mini") -> Cell:
    instance = replace(INSTANCE, instance_id=f"a__b-{number}", image=f"images/of-{'xyz'[number]}")
    return Cell(EXPERIMENT, EXPERIMENT.arm(arm), instance, 0, Place("docker"))


def refused(number: int) -> str:
    return (
        f"infrastructure: refused: no key, request {number}a{number} of images/of-{'xyz'[number]}"
    )


def pull(brake: Brake, *ends: tuple[int, str, End, str]) -> bool:
    for number, arm, end, result in ends:
        brake.look(cell(number, arm), end, result)
    return brake.is_on


FAILED: list[tuple[int, str, End, str]] = [
    (number, "mini", "infrastructure", refused(number)) for number in range(3)
]


def test_one_cause_stops_a_run() -> None:
    """Texts of one cause differ in names, numbers and ids. The first one is named."""
    brake = Brake(concurrency=1)
    assert not pull(brake, *FAILED[:2])
    assert pull(brake, FAILED[2])
    assert f"the first 3 cells all ended as infrastructure for one cause: {refused(0)[16:]}" in str(
        brake
    )


def test_a_patch_of_an_arm_without_a_model_shows_nothing() -> None:
    """The reference patch is found without any call."""
    assert pull(Brake(3), (0, "gold", "done", "resolved"), *FAILED)


@pytest.mark.parametrize(
    "other",
    [
        (0, "mini", "done", "unresolved"),
        (0, "mini", "budget", "stopped: the budget is spent"),
        (0, "gold", "infrastructure", "infrastructure: the disk is full"),
    ],
)
def test_another_end_releases_the_brake(other: tuple[int, str, End, str]) -> None:
    """A run that works, or that fails in several ways, is not stopped."""
    brake = Brake(3)
    assert not pull(brake, other, *FAILED, *FAILED)
    assert brake.cause is None


def test_one_instance_stops_no_run() -> None:
    """Perhaps only its image is missing."""
    assert not pull(Brake(3), *[FAILED[0]] * 5)
    assert pull(Brake(3), *[FAILED[0]] * 5, FAILED[1])


@pytest.mark.parametrize(("concurrency", "cells"), [(1, 3), (8, 8), (64, 10)])
def test_as_many_cells_as_run_at_once_have_to_fail(concurrency: int, cells: int) -> None:
    """At least three and at most ten."""
    ends = [FAILED[number % 3] for number in range(cells)]
    assert not pull(Brake(concurrency), *ends[:-1])
    assert pull(Brake(concurrency), *ends)
