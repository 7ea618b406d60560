"""Gates that an experiment declares."""

from collections.abc import Sequence
from typing import Any

import pytest

from flows.display.errors import UsageError
from flows.experiments.gates import find_failed_gates
from flows.storage import report_files
from flows.storage.lake import Lake
from reports.types import ArmSummary
from tests.flows.conftest import trial
from tests.reports.lake_fixture import LakeBuilder

PARTLY: dict[str, dict[str, Any]] = {
    "unknown": {"cost_usd": None},
    "unpriced": {"unpriced_calls": 1},
    "zero": {"cost_usd": 0.0},
}
"""Arms with a cell of which the cost is not known, or only a part of it."""


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> Sequence[ArmSummary]:
    """Return an arm that resolves one of two instances at a dollar each, one that never ran, and
    those whose costs are partly known."""
    lake = LakeBuilder(tmp_path_factory.mktemp("lake"))
    lake.declare(["mini", "free", *PARTLY], ["i", "j"])
    lake.fill({"mini": 1}, ["i", "j"], cost_usd=1.0)
    for arm, rest in PARTLY.items():
        lake.cell(arm, "i", cost_usd=0.5)
        lake.cell(arm, "j", **rest)
    return report_files.read(Lake.existing(lake.root), "trial").arms


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
    arm: str, bounds: dict[Any, str], failed: list[str], arms: Sequence[ArmSummary]
) -> None:
    """A bound is compared with the arm's value, and an unknown value keeps none."""
    assert [str(gate) for gate in find_failed_gates({arm: bounds}, arms)] == failed


@pytest.mark.parametrize("metric", ["cost_per_instance", "cost_per_resolved"])
@pytest.mark.parametrize("bound", ["< 100", "> 0"])
@pytest.mark.parametrize("arm", PARTLY)
def test_a_lower_bound_keeps_no_gate(
    metric: Any, bound: str, arm: str, arms: Sequence[ArmSummary]
) -> None:
    """A cost of which only a part is known passes no gate; what is known still does."""
    [failed] = find_failed_gates({arm: {metric: bound, "resolved": ">= 1"}}, arms)
    assert " and not fully known, not " in str(failed)
    assert str(failed).startswith(f"{arm}: {metric} is \N{GREATER-THAN OR EQUAL TO} $")


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
