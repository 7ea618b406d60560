"""Gates that an experiment declares."""

from typing import Any

import pytest

from flows.errors import UsageError
from flows.experiments.gates import failed_gates
from flows.storage import report_files
from flows.storage.lake import Lake
from tests.flows.conftest import trial
from tests.reports.lake_fixture import LakeBuilder

pytestmark = pytest.mark.sampled(3)


@pytest.fixture
def lake(tmp_path: Any) -> LakeBuilder:
    """Write an arm that resolves one of two instances at a dollar each. Return the lake."""
    builder = LakeBuilder(tmp_path)
    builder.declare(["mini", "free"], ["i", "j"])
    for instance, outcome in (("i", "resolved"), ("j", "unresolved")):
        builder.cell("mini", instance, outcome, cost_usd=1.0)
    return builder


@pytest.mark.parametrize(
    ("arm", "bounds", "failed"),
    [
        ("mini", {"resolved": ">= 0.5"}, []),
        ("mini", {"resolved": "> 0.5"}, ["mini: resolved is 50.0 %, not > 0.5"]),
        ("mini", {"resolved": ">=0.6"}, ["mini: resolved is 50.0 %, not >=0.6"]),
        ("mini", {"cost_per_resolved": "<= 2"}, []),
        ("mini", {"cost_per_resolved": "< 2"}, ["mini: cost_per_resolved is $2.00, not < 2"]),
        ("mini", {"cost_per_instance": "<= 0.5"}, ["mini: cost_per_instance is $1.00, not <= 0.5"]),
        ("free", {"cost_per_resolved": "<= 2"}, ["free: cost_per_resolved is unknown, not <= 2"]),
        ("gone", {"resolved": ">= 0"}, ["gone: resolved is unknown, not >= 0"]),
    ],
)
def test_a_bound_is_kept_or_not(
    arm: str, bounds: dict[Any, str], failed: list[str], lake: LakeBuilder
) -> None:
    """A bound is compared with the arm's value, and an unknown value keeps none."""
    arms = report_files.read(Lake.existing(lake.root), "trial").arms
    assert [str(gate) for gate in failed_gates({arm: bounds}, arms)] == failed


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ({"gone": {"resolved": ">= 0.6"}}, "gates names no arm of this experiment: .'gone'"),
        ({"able": {"resolved": "about 0.6"}}, "gates.able.resolved: String should match"),
        ({"able": {"speed": ">= 1"}}, "gates.able.speed"),
    ],
)
def test_a_wrong_gate_is_refused(gates: Any, message: str) -> None:
    """A gate for an unknown arm or metric, or without a comparison, is refused."""
    with pytest.raises(UsageError, match=message):
        trial(gates=gates)
