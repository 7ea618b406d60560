"""People and the arms that work in steps: what they approve, reject and want otherwise."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from agent.arms.durable import arm as durable
from agent.arms.durable.options import DurableOptions
from agent.arms.loop import arm as loop
from agent.arms.options import LoopOptions, StagedOptions
from agent.arms.staged import arm as staged
from agent.errors import Waiting
from agent.types import Outcome
from tests.agent.arms.durable.conftest import (
    FIX,
    HONEST,
    QUICK,
    WRITE,
    RoleModel,
    Said,
    Script,
    Use,
    answer,
    report,
)
from tests.agent.arms.durable.test_lean import PLAN, work
from tests.agent.arms.loop.conftest import DONE, TASK, Attempts, read_wanted_approval, send
from tests.agent.arms.staged.test_staged import HONEST as STAGES
from tests.agent.arms.staged.test_staged import TASK as TESTED
from tests.agent.arms.staged.test_staged import planned

pytestmark = [pytest.mark.usefixtures("idle_at_once"), pytest.mark.slow]

DOCUMENT: Use = ("write", {"path": "NOTES.md", "content": "add adds\n"})
PLANNED = answer(cause="it subtracts", steps=["add instead"], check="add(2, 3) is 5")


def first_or_later(first: list[Said], later: list[Said]) -> Script:
    """Return other replies where the work goes on after what a person said."""

    def reply(number: int, request: Any) -> Said:
        return (later if "approval" in request.scope else first)[number]

    return reply


def reply_in_loop(number: int, request: Any) -> Said:
    return PLANNED if request.scope == "plan" else [[FIX], DONE, [DOCUMENT], DONE][number]


def declare_durable(preset: str, approval: str) -> DurableOptions:
    profile = {"preset": preset, "test_command": QUICK}
    return DurableOptions.model_validate({"profile": profile, "approval": approval})


SCRIPTS: dict[str, Mapping[str, Script]] = {
    "loop": {"loop": reply_in_loop},
    "lean": {
        "scout": [PLAN],
        "solver": first_or_later([[WRITE], [FIX], work()], [[DOCUMENT], work()]),
    },
    "full": {**HONEST, "implementer": first_or_later([[FIX], report()], [[DOCUMENT], report()])},
    "staged": {
        **STAGES,
        "plan": [planned("fix")],
        "build": [[FIX], DONE],
        "repair": [[DOCUMENT], DONE],
    },
}
every_arm = pytest.mark.parametrize("kind", SCRIPTS)


async def solve(attempts: Attempts, kind: str, approval: str) -> Outcome | None:
    """Run the attempt. Return its outcome, or None if it waits."""
    arms: dict[str, Callable[..., Any]] = {
        "loop": partial(
            loop.solve, TASK, options=LoopOptions(capabilities=["files"], approval=approval)
        ),
        "staged": partial(staged.solve, TESTED, options=StagedOptions(approval=approval)),
    }
    run = arms.get(kind) or partial(durable.solve, TASK, options=declare_durable(kind, approval))
    try:
        return await attempts.carry_out(run, RoleModel(dict(SCRIPTS[kind])))
    except Waiting:
        return None


@every_arm
async def test_a_plan_is_made_until_it_is_approved(attempts: Attempts, kind: str) -> None:
    """Who plans reads what the person wants. Nothing is changed before."""
    assert await solve(attempts, kind, "plan") is None
    asked = attempts.model.asked
    offered = {tool["function"]["name"] for request in asked for tool in request.tools}
    assert offered.isdisjoint({"edit", "write", "apply_patch"})
    assert read_wanted_approval(attempts)
    send(attempts, "name the file", "revise")
    assert await solve(attempts, kind, "plan") is None
    assert "name the file" in str([request.messages for request in attempts.model.asked])
    assert not [step for step in attempts.journal.steps("a") if step.tree is not None]
    send(attempts, "but be quick", "approve")
    outcome = await solve(attempts, kind, "plan")
    assert outcome is not None
    assert outcome.status == "submitted"
    assert "return a + b" in outcome.patch
    if kind in ("loop", "staged"):
        assert "but be quick" in str(attempts.model.asked[0].messages)


@every_arm
async def test_a_patch_that_is_wanted_otherwise_is_changed(attempts: Attempts, kind: str) -> None:
    """The work goes on at the change, knows what people said, and is approved again."""
    assert await solve(attempts, kind, "patch") is None
    assert "return a + b" in read_wanted_approval(attempts)
    send(attempts, "write notes, too", "revise")
    assert await solve(attempts, kind, "patch") is None
    assert "write notes, too" in str([request.messages for request in attempts.model.asked])
    assert "NOTES.md" in read_wanted_approval(attempts)
    assert "return a + b" in read_wanted_approval(attempts)
    send(attempts, "", "approve")
    outcome = await solve(attempts, kind, "patch")
    assert outcome is not None
    assert (outcome.status, attempts.model.asked) == ("submitted", [])
    assert "NOTES.md" in outcome.patch


@every_arm
@pytest.mark.parametrize("approval", ["plan", "patch"])
async def test_what_is_rejected_is_no_prediction(
    attempts: Attempts, kind: str, approval: str
) -> None:
    """The outcome says who rejected it, and why."""
    assert await solve(attempts, kind, approval) is None
    send(attempts, "too risky", "reject")
    outcome = await solve(attempts, kind, approval)
    assert outcome is not None
    assert (outcome.status, outcome.patch) == ("gave_up", "")
    assert outcome.detail == "rejected by ann: too risky"
