"""People and the durable arm: what they say, ask for otherwise, approve and reject."""

from typing import Any

import pytest

from agent.arms.durable import arm
from agent.arms.durable.options import DurableOptions
from agent.errors import Waiting
from agent.types import Outcome
from tests.agent.arms.durable.conftest import (
    FIX,
    HONEST,
    QUICK,
    TASK,
    WRITE,
    RoleModel,
    Said,
    report,
)
from tests.agent.arms.durable.test_lean import PLAN, work
from tests.agent.arms.loop.conftest import Attempts, read_wanted_approval, send

pytestmark = [pytest.mark.usefixtures("idle_at_once"), pytest.mark.slow]

DOCUMENT = ("write", {"path": "NOTES.md", "content": "add adds\n"})


async def solve(
    attempts: Attempts,
    dies_after: int | None = None,
    preset: str = "lean",
    approval: str | None = None,
    **roles: Any,
) -> Outcome | None:
    """Run the attempt. Return its outcome, or None if it waits."""
    profile = {"preset": preset, "test_command": QUICK}
    options = DurableOptions.model_validate({"profile": profile, "approval": approval})
    try:
        model = RoleModel({**HONEST, **roles})
        async with attempts.opened(model, dies_after=dies_after) as session:
            return await arm.solve(TASK, session, options)
    except Waiting:
        return None


def facts(attempts: Attempts, role: str) -> Any:
    return next(each for each in attempts.model.asked if each.role == role).facts


async def test_a_patch_that_is_wanted_otherwise_is_changed(attempts: Attempts) -> None:
    """Another conversation begins at the change, and knows what people said."""

    def solver(number: int, request: Any) -> Said:
        if "approval" in request.scope:
            return [[DOCUMENT], work()][number]
        return [[WRITE], [FIX], work()][number]

    assert await solve(attempts, approval="patch", solver=solver) is None
    assert "return a + b" in read_wanted_approval(attempts)
    send(attempts, "write notes, too", "revise")
    assert await solve(attempts, approval="patch", solver=solver) is None
    assert facts(attempts, "solver")["said_by_people"] == ["write notes, too"]
    assert "NOTES.md" in read_wanted_approval(attempts)
    assert "return a + b" in read_wanted_approval(attempts)
    send(attempts, "", "approve")
    outcome = await solve(attempts, approval="patch", solver=solver)
    assert outcome is not None
    assert outcome.status == "submitted"
    assert "NOTES.md" in outcome.patch


@pytest.mark.full
async def test_the_full_preset_makes_further_steps(attempts: Attempts) -> None:
    """The planner's backlog is what the person wants, and the step is made on the change."""

    def implementer(number: int, request: Any) -> Said:
        return [[DOCUMENT] if "approval" in request.scope else [FIX], report()][number]

    roles = {"preset": "full", "approval": "patch", "implementer": implementer}
    assert await solve(attempts, **roles) is None
    send(attempts, "write notes, too", "revise")
    assert await solve(attempts, **roles) is None
    assert facts(attempts, "planner")["backlog"] == ["write notes, too"]
    assert "NOTES.md" in read_wanted_approval(attempts)
    assert "return a + b" in read_wanted_approval(attempts)


@pytest.mark.parametrize("preset", ["lean", pytest.param("full", marks=pytest.mark.full)])
async def test_a_rejected_patch_is_no_prediction(attempts: Attempts, preset: str) -> None:
    """The outcome says who rejected it, and why."""
    solver = [[WRITE], [FIX], work()]
    assert await solve(attempts, preset=preset, approval="patch", solver=solver) is None
    assert "return a + b" in read_wanted_approval(attempts)
    send(attempts, "too risky", "reject")
    outcome = await solve(attempts, preset=preset, approval="patch", solver=solver)
    assert outcome is not None
    assert (outcome.status, outcome.patch) == ("gave_up", "")
    assert outcome.detail == "rejected by ann: too risky"


@pytest.mark.full
@pytest.mark.parametrize(("preset", "role"), [("lean", "scout"), ("full", "contract")])
async def test_a_plan_is_made_until_it_is_approved(
    attempts: Attempts, preset: str, role: str
) -> None:
    """The role that plans knows the last plan and what people said. Nothing is changed before."""
    roles = {"scout": [PLAN], "solver": [[WRITE], [FIX], work()]}
    assert await solve(attempts, preset=preset, approval="plan", **roles) is None
    assert "add adds" in read_wanted_approval(attempts) or "add subtracts" in read_wanted_approval(
        attempts
    )
    send(attempts, "name the file", "revise")
    assert await solve(attempts, preset=preset, approval="plan", **roles) is None
    assert facts(attempts, role)["said_by_people"] == ["name the file"]
    assert facts(attempts, role)["not_approved"]
    assert not [step for step in attempts.journal.steps("a") if step.tree is not None]
    send(attempts, "", "approve")
    outcome = await solve(attempts, preset=preset, approval="plan", **roles)
    assert outcome is not None
    assert "return a + b" in outcome.patch
