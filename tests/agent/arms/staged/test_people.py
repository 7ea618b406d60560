"""People and the staged arm: what they approve, reject and want otherwise."""

from functools import partial
from typing import Any

import pytest

from agent.arms.options import StagedOptions
from agent.arms.staged import arm
from agent.errors import Waiting
from agent.types import Outcome
from tests.agent.arms.durable.conftest import FIX, RoleModel, Said, Script, facts_of
from tests.agent.arms.loop.conftest import DONE, Attempts, read_wanted_approval, send
from tests.agent.arms.staged.test_staged import HONEST, TASK, planned, report

pytestmark = [pytest.mark.usefixtures("idle_at_once"), pytest.mark.slow]

DOCUMENT: Said = [("write", {"path": "NOTES.md", "content": "add adds\\n"})]


async def solve(
    attempts: Attempts,
    approval: str,
    dies_after: int | None = None,
    limits: dict[str, Any] | None = None,
    **scripts: Script,
) -> Outcome | None:
    """Run the attempt. Return its outcome, or None if it waits."""
    given = {"limits": limits} if limits else {}
    options = StagedOptions.model_validate({"approval": approval, **given})
    run = partial(arm.solve, TASK, options=options)
    roles: dict[str, Script] = {**HONEST, "plan": [planned("fix")], "build": [[FIX], DONE]}
    try:
        model = RoleModel({**roles, **scripts})
        return await attempts.carry_out(run, model, dies_after=dies_after)
    except Waiting:
        return None


async def test_a_plan_is_made_until_it_is_approved(attempts: Attempts) -> None:
    """The planner hears what the person wants. Nothing is changed before, and the builder knows
    what was said with the approval."""
    plan: Script = lambda number, request: planned(["fix", "fix and test"][number])  # noqa: E731
    assert await solve(attempts, "plan", plan=plan) is None
    assert read_wanted_approval(attempts) == "1. fix\ndo fix"
    send(attempts, "test it, too", "revise")
    assert await solve(attempts, "plan", plan=plan) is None
    assert attempts.told()[-1] == "ann does not approve it yet, and says:\n\ntest it, too"
    assert read_wanted_approval(attempts) == "1. fix and test\ndo fix and test"
    assert not [step for step in attempts.journal.steps("a") if step.tree is not None]
    send(attempts, "but be quick", "approve")
    outcome = await solve(attempts, "plan", plan=plan)
    assert outcome is not None
    assert (outcome.status, report(outcome)["agent_verdict"]) == ("submitted", "accepted")
    facts = facts_of(attempts.model.asked[0])
    assert (facts["approved_with"], facts["plan"]) == ("but be quick", ["fix and test"])


@pytest.mark.parametrize("approval", ["plan", "patch"])
async def test_what_is_rejected_is_not_submitted(attempts: Attempts, approval: str) -> None:
    """The outcome says who rejected it, and why."""
    assert await solve(attempts, approval) is None
    send(attempts, "too risky", "reject")
    outcome = await solve(attempts, approval)
    assert outcome is not None
    assert (outcome.status, outcome.patch) == ("gave_up", "")
    assert outcome.detail == "rejected by ann: too risky"
    assert report(outcome)["prediction_emitted"] is False


async def test_a_patch_that_is_wanted_otherwise_is_repaired(attempts: Attempts) -> None:
    """A repair begins at the change, knows what people said, and is verified again."""
    assert await solve(attempts, "patch") is None
    assert "return a + b" in read_wanted_approval(attempts)
    send(attempts, "write notes, too", "revise")
    repair: Script = [DOCUMENT, DONE]
    assert await solve(attempts, "patch", repair=repair) is None
    facts = facts_of(next(each for each in attempts.model.asked if each.role == "repair"))
    assert facts["said_by_people"] == ["write notes, too"]
    assert "return a + b" in facts["diff"]
    assert "NOTES.md" in read_wanted_approval(attempts)
    assert "return a + b" in read_wanted_approval(attempts)
    send(attempts, "", "approve")
    outcome = await solve(attempts, "patch", repair=repair)
    assert outcome is not None
    assert (outcome.status, attempts.model.asked) == ("submitted", [])
    assert "NOTES.md" in outcome.patch
    assert [each["chosen"] for each in report(outcome)["verifications"]] == [False, True]
