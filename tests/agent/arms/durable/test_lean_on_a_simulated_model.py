"""The lean preset on the simulated model: the best path, and a solver whose own test is wrong."""

from typing import Any

import pytest

from agent.arms import ARMS, ArmKind
from agent.arms.durable.options import DurableOptions
from agent.arms.options import ArmOptions
from agent.models.protocol import ModelReply
from agent.models.simulated import SimulatedModel
from agent.models.spec import SimulatedSpec
from agent.session.session import Session
from agent.types import Outcome, Task
from tests.agent.arms.durable.conftest import FILES, QUICK, REFERENCE
from tests.agent.models.simulations import TRUTHFUL
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

pytestmark = [pytest.mark.slow]

TASK = Task("calc-1", "add(2, 3) returns -1.", "HEAD", REFERENCE)
STUCK = {"wrong_anchors": 1.0, "insight": 0.0}
"""The solver's change is right but its test is wrong, and it never doubts the test."""


async def solve(arm: ArmKind, **spec: Any) -> tuple[Outcome, list[str], float]:
    """Run an arm on the host. Return its outcome, the roles that were asked, and the cost."""
    declared = {"provider": "simulated", "skill": 1.0, **TRUTHFUL, **spec}
    model = SimulatedModel(SimulatedSpec.model_validate(declared), TASK, 0)
    options: ArmOptions = ARMS[arm].options()
    if arm == "durable":
        options = DurableOptions.model_validate({"profile": {"test_command": QUICK}})
    workspaces = HostWorkspaces(with_files(FILES))
    async with Session.start(attempt_id="a", models={"": model}, workspaces=workspaces) as session:
        outcome = await ARMS[arm].solve(TASK, session, options)
        replies = [step for step in session.steps if isinstance(step.result, ModelReply)]
    roles = [step.request["role"] for step in replies]
    cost = sum(step.result.usage.cost_usd or 0.0 for step in replies)  # type: ignore[union-attr]
    return outcome, roles, cost


def is_right(outcome: Outcome) -> bool:
    return "+    return a + b" in outcome.patch and outcome.patch.count("\n+") == 2


@pytest.mark.full
async def test_the_best_path_is_one_conversation_and_costs_little() -> None:
    """Only the solver is asked, at no more than 2.5 times the cost of mini-swe-agent."""
    outcome, roles, cost = await solve("durable")
    assert outcome.report is not None
    assert (outcome.report["workflow_status"], outcome.report["reproduced"]) == ("completed", True)
    assert set(roles) == {"solver"}
    assert is_right(outcome)
    _, _, baseline = await solve("mini")
    assert cost <= 2.5 * baseline


@pytest.mark.full
async def test_a_stuck_attempt_submits_the_right_patch_at_a_bounded_cost() -> None:
    """A ruling withdraws the wrong test, at no more than six times the cost of mini-swe-agent."""
    outcome, roles, cost = await solve("durable", **STUCK)
    assert is_right(outcome)
    assert outcome.report is not None
    assert outcome.report["withdrawn_tests"] != []
    assert "adjudicator" in roles
    _, _, baseline = await solve("mini")
    assert cost <= 6 * baseline


@pytest.mark.full
async def test_a_wrong_ruling_loses_no_work() -> None:
    """Every approach ends with the right code and a failing test, and the code is submitted."""
    outcome, roles, _ = await solve("durable", **STUCK, adjudicator_accuracy=0.0)
    assert is_right(outcome)
    assert outcome.report is not None
    assert outcome.report["closed_gates"] == ["new_test"]
    assert "scout" in roles
