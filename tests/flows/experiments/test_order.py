"""The order in which the arms begin an instance."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from flows.experiments.cells import Cell, Place, plan
from tests.flows.conftest import trial
from tests.flows.experiments.test_keys import INSTANCE

INSTANCES = [replace(INSTANCE, instance_id=f"a__b-{i}") for i in range(200)]


def planned(**changes: Any) -> list[Cell]:
    return plan(trial(**changes), INSTANCES, Place("docker"))


@pytest.mark.parametrize("images", [{}, {"images": {"keep_gb": 1}}])
def test_the_arms_of_an_instance_are_run_together_in_random_order(images: Any) -> None:
    """All arms of an instance follow each other. Each is about as often first, the recorded
    position is that of the plan, and the order of the others does not depend on an arm."""
    cells = planned(repeats=2, **images)
    groups = [cells[start : start + 4] for start in range(0, len(cells), 4)]
    assert all(len({(c.instance.instance_id, c.repeat) for c in group}) == 1 for group in groups)
    assert all([c.order_in_instance for c in group] == [0, 1, 2, 3] for group in groups)
    first = Counter(group[0].arm.name for group in groups)
    assert set(first) == {"able", "unable", "gold", "null"}
    assert min(first.values()) > 60  # of 100 expected
    fewer = [arm.model_dump(mode="json") for arm in trial().arms[1:]]
    others = [cell.arm.name for cell in cells if cell.arm.name != "able"]
    alone = planned(repeats=2, arms=fewer, primary=None, **images)
    assert [cell.arm.name for cell in alone] == others
