"""People and the staged arm: what they approve, reject and want otherwise."""

from functools import partial
from typing import Any

import pytest

from agent.arms.options import StagedOptions
from agent.arms.staged import arm
from agent.errors import Waiting
from agent.journal import InboxMessage
from agent.types import Outcome
from tests.agent.arms.durable.conftest import FIX, RoleModel, Said, Script, facts_of
from tests.agent.arms.loop.conftest import DONE, Attempts, Died
from tests.agent.arms.staged.test_staged import BREAK, HONEST, TASK, planned, report

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


def send(attempts: Attempts, kind: Any, text: str = "") -> None:
    attempts.journal.inbox("a").send(InboxMessage(f"{kind} {text}", kind, text, "ann"))


def about(attempts: Attempts) -> str:
    """Return what the attempt wants an approval of."""
    wait = attempts.journal.inbox("a").wait()
    assert wait is not None
    assert (wait.wanted, wait.is_answered) == ("approval", False)
    return wait.about


async def test_a_plan_is_made_until_it_is_approved(attempts: Attempts) -> None:
    """The planner hears what the person wants. Nothing is changed before, and the builder knows
    what was said with the approval."""
    plan: Script = lambda number, request: planned(["fix", "fix and test"][number])  # noqa: E731
    assert await solve(attempts, "plan", plan=plan) is None
    assert about(attempts) == "1. fix\ndo fix"
    send(attempts, "revise", "test it, too")
    assert await solve(attempts, "plan", plan=plan) is None
    assert attempts.told()[-1] == "ann does not approve it yet, and says:\n\ntest it, too"
    assert about(attempts) == "1. fix and test\ndo fix and test"
    assert not [step for step in attempts.journal.steps("a") if step.tree is not None]
    send(attempts, "approve", "but be quick")
    outcome = await solve(attempts, "plan", plan=plan)
    assert outcome is not None
    assert (outcome.status, report(outcome)["agent_verdict"]) == ("submitted", "accepted")
    facts = facts_of(attempts.model.asked[0])
    assert (facts["approved_with"], facts["plan"]) == ("but be quick", ["fix and test"])


@pytest.mark.parametrize("approval", ["plan", "patch"])
async def test_what_is_rejected_is_not_submitted(attempts: Attempts, approval: str) -> None:
    """The outcome says who rejected it, and why."""
    assert await solve(attempts, approval) is None
    send(attempts, "reject", "too risky")
    outcome = await solve(attempts, approval)
    assert outcome is not None
    assert (outcome.status, outcome.patch) == ("gave_up", "")
    assert outcome.detail == "rejected by ann: too risky"
    assert report(outcome)["prediction_emitted"] is False


async def test_a_patch_that_is_wanted_otherwise_is_repaired(attempts: Attempts) -> None:
    """A repair begins at the change, knows what people said, and is verified again."""
    assert await solve(attempts, "patch") is None
    assert "return a + b" in about(attempts)
    send(attempts, "revise", "write notes, too")
    repair: Script = [DOCUMENT, DONE]
    assert await solve(attempts, "patch", repair=repair) is None
    facts = facts_of(next(each for each in attempts.model.asked if each.role == "repair"))
    assert facts["said_by_people"] == ["write notes, too"]
    assert "return a + b" in facts["diff"]
    assert "NOTES.md" in about(attempts)
    assert "return a + b" in about(attempts)
    send(attempts, "approve")
    outcome = await solve(attempts, "patch", repair=repair)
    assert outcome is not None
    assert (outcome.status, attempts.model.asked) == ("submitted", [])
    assert "NOTES.md" in outcome.patch
    assert [each["chosen"] for each in report(outcome)["verifications"]] == [False, True]


@pytest.mark.full
async def test_a_change_begins_at_the_one_that_was_shown(attempts: Attempts) -> None:
    """That is the best one, and not the one that the last repair left."""
    ruin: Said = [
        ("write", {"path": "tests/test_bad.py", "content": "def test_a():\n    assert 0\n"})
    ]

    def repair(number: int, request: Any) -> Said:
        return ([DOCUMENT, DONE] if "approval" in request.scope else [ruin, DONE])[number]

    roles: dict[str, Script] = {"build": [[FIX, *BREAK], DONE], "repair": repair}
    assert await solve(attempts, "patch", **roles) is None
    assert "test_double fails and did not before" in about(attempts)
    assert "test_bad" not in about(attempts)
    send(attempts, "revise", "write notes, too")
    assert await solve(attempts, "patch", **roles) is None
    assert "NOTES.md" in about(attempts)
    assert "test_bad" not in about(attempts)


@pytest.mark.full
async def test_without_calls_left_the_change_before_is_shown_again(attempts: Attempts) -> None:
    """The person may still approve it, and reads why there is no other one."""
    limits = {"calls": 5}
    assert await solve(attempts, "patch", limits=limits) is None
    send(attempts, "revise", "write notes, too")
    assert await solve(attempts, "patch", limits=limits) is None
    assert about(attempts).startswith("It could not be changed further: ")
    assert "return a + b" in about(attempts)
    send(attempts, "approve")
    outcome = await solve(attempts, "patch", limits=limits)
    assert outcome is not None
    assert (outcome.status, "return a + b" in outcome.patch) == ("submitted", True)


@pytest.mark.full
async def test_the_end_by_a_person_submits_nothing_that_was_not_approved(
    attempts: Attempts,
) -> None:
    """The patch is not submitted, and no further call is made."""
    assert await solve(attempts, "patch") is None
    send(attempts, "end", "enough")
    outcome = await solve(attempts, "patch")
    assert outcome is not None
    assert (outcome.status, outcome.patch) == ("gave_up", "")
    assert attempts.model.asked == []


@pytest.mark.full
@pytest.mark.parametrize("rows", range(1, 5))
async def test_a_death_after_the_decision_buys_nothing_twice(attempts: Attempts, rows: int) -> None:
    """The revision continues from its last step."""
    repair: Script = [DOCUMENT, DONE]
    assert await solve(attempts, "patch") is None
    send(attempts, "revise", "write notes, too")
    with pytest.raises(Died):
        await solve(attempts, "patch", dies_after=rows, repair=repair)
    before = sum(s.kind == "model" and s.result is not None for s in attempts.journal.steps("a"))
    assert await solve(attempts, "patch", repair=repair) is None
    assert len(attempts.model.asked) == 7 - before
    assert "NOTES.md" in about(attempts)
