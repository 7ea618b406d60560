"""The staged arm: its stages, its verifications and repairs, and a death at every row."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.arms import ARMS
from agent.arms.options import StagedOptions
from agent.arms.staged import arm
from agent.checks.debugging import ROOT_CAUSE
from agent.models.protocol import ModelReply
from agent.models.simulated import SimulatedModel
from agent.models.spec import SimulatedSpec
from agent.runners import TestRunner
from agent.session.session import Session
from agent.types import Outcome, Task
from tests.agent.arms.durable.conftest import (
    ANCHOR,
    ANCHOR_TEXT,
    FILES,
    FIX,
    QUICK,
    REFERENCE,
    RoleModel,
    Said,
    Script,
    answer,
    facts_of,
)
from tests.agent.arms.loop.conftest import DONE, Attempts, Died
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

pytestmark = [pytest.mark.slow]

TASK = Task("calc-1", "add(2, 3) returns -1.", "HEAD", "", TestRunner(QUICK))
LOOK: Said = [("read", {"path": "calc.py"})]
FOUND = answer(summary="add subtracts", files=["calc.py: add"], tests=["tests/test_calc.py"])
BREAK: Said = [("edit", {"path": "calc.py", "old": "2 * a", "new": "3 * a"})]
MEND: Said = [("edit", {"path": "calc.py", "old": "3 * a", "new": "2 * a"})]
ADD_TEST: Said = [("write", {"path": ANCHOR, "content": ANCHOR_TEXT})]


def planned(*titles: str) -> Said:
    return answer(subtasks=[{"title": title, "instructions": f"do {title}"} for title in titles])


def building(**replies: list[Said]) -> Script:
    """Return the replies of the builders by the title of their subtask."""
    return lambda number, request: replies[facts_of(request)["subtask"]["title"]][number]


HONEST: dict[str, Script] = {
    "explore": [LOOK, FOUND],
    "plan": [planned("fix", "test")],
    "build": building(fix=[[FIX], DONE], test=[ADD_TEST, DONE]),
}


async def solve(
    attempts: Attempts, task: Task = TASK, dies_after: int | None = None, **scripts: Script
) -> Outcome:
    """Run the arm by scripts of its stages, by default the honest ones."""
    run = partial(arm.solve, task, options=StagedOptions())
    return await attempts.carry_out(run, RoleModel({**HONEST, **scripts}), dies_after=dies_after)


def report(outcome: Outcome) -> dict[str, Any]:
    assert outcome.report is not None
    return outcome.report


async def test_each_subtask_is_built_and_the_whole_is_verified(attempts: Attempts) -> None:
    """Stages see what earlier ones found, and tests old and new decide on a fresh copy."""
    outcome = await solve(attempts)
    assert attempts.model.roles() == ["explore"] * 2 + ["plan"] + ["build"] * 4
    assert facts_of(attempts.model.asked[-1])["findings"]["files"] == ["calc.py: add"]
    assert facts_of(attempts.model.asked[-1])["plan"] == ["fix", "test"]
    [verified] = report(outcome)["verifications"]
    assert verified["tests"] == ["tests/test_calc.py", ANCHOR]
    assert (outcome.status, report(outcome)["agent_verdict"]) == ("submitted", "accepted")
    assert "+    return a + b" in outcome.patch
    scopes = {place.rpartition("/")[0] for place in attempts.places}
    assert {"work/explore", "work/plan", "work/build-1", "work/build-2", "work/verify-1"} < scopes


async def test_exploring_and_planning_change_nothing(attempts: Attempts) -> None:
    """The stages that come before the building have no tool that writes or runs anything."""
    await solve(attempts, explore=[[FIX, ("run_command", {"command": "rm calc.py"})], FOUND])
    offered = {tool["function"]["name"] for tool in attempts.model.asked[0].tools}
    looking = {"read", "search", "find_definition", "find_callers", "find_callees", "answer"}
    assert offered == looking
    assert [tool["function"]["name"] for tool in attempts.model.asked[2].tools] == [
        tool["function"]["name"] for tool in attempts.model.asked[0].tools
    ]
    told = attempts.model.asked[1].messages[-2:]
    assert all("there is no tool" in message["content"] for message in told)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(["No plan."], id="prose"),
        pytest.param([planned(*"abcdefg")], id="seven subtasks"),
    ],
)
async def test_a_plan_that_is_none_becomes_one_subtask(
    attempts: Attempts, said: list[Said]
) -> None:
    """After three replies that are no plan, the whole task is built at once."""
    outcome = await solve(attempts, plan=said, build=[[FIX], DONE])
    assert attempts.model.roles().count("plan") == 3
    assert [each["title"] for each in report(outcome)["subtasks"]] == ["the whole task"]
    assert outcome.status == "submitted"


async def test_a_change_that_breaks_tests_is_repaired(attempts: Attempts) -> None:
    """The repair sees the failures on the fresh copy, and the next verification passes."""
    plan = [planned("fix")]
    build: Script = [[FIX, *BREAK], DONE]
    outcome = await solve(attempts, plan=plan, build=build, repair=[MEND, DONE])
    facts = facts_of(next(each for each in attempts.model.asked if each.role == "repair"))
    assert facts["failures"] == ["tests/test_calc.py::test_double fails and did not before"]
    assert "assert double(2) == 4" in facts["output"]
    assert "+    return 3 * a" in facts["diff"]
    verified = report(outcome)["verifications"]
    assert [each["chosen"] for each in verified] == [False, True]
    assert report(outcome)["agent_verdict"] == "accepted"
    assert "3 * a" not in outcome.patch


async def test_the_same_failure_again_is_worked_on_by_root_cause(attempts: Attempts) -> None:
    """The second similar failure begins debug mode, and the fifth verification is the last."""
    outcome = await solve(attempts, build=[[FIX, *BREAK], DONE], repair=[LOOK, DONE])
    repairs = [each for each in attempts.model.asked if each.role == "repair"]
    prompts = [each.messages[0]["content"] for each in repairs if len(each.messages) == 2]
    assert [ROOT_CAUSE.strip() in prompt for prompt in prompts] == [False, True, True, True]
    assert len(facts_of(repairs[-1])["earlier_errors"]) == 2
    assert len(report(outcome)["verifications"]) == 5
    assert (outcome.status, report(outcome)["agent_verdict"]) == ("submitted", "rejected")
    assert "test_double fails" in outcome.detail


async def test_a_used_up_limit_submits_the_best_change(attempts: Attempts) -> None:
    """The work so far is kept when the calls are used up."""
    options = StagedOptions.model_validate({"limits": {"calls": 5}})
    run = partial(arm.solve, TASK, options=options)
    outcome = await attempts.carry_out(run, RoleModel(HONEST))
    assert (outcome.status, "made its 5 model calls" in outcome.detail) == ("out_of_steps", True)
    assert "+    return a + b" in outcome.patch


_ROWS = 20
"""Rows that an attempt with a repair has at least."""


@pytest.mark.slow
@pytest.mark.parametrize("rows", range(_ROWS))
async def test_a_death_at_any_row_buys_nothing_twice(tmp_path: Path, rows: int) -> None:
    """The outcome is that of an undisturbed run, and each call was answered once."""
    scripts: dict[str, Script] = {
        "plan": [planned("fix")],
        "build": [[FIX, *BREAK], DONE],
        "repair": [MEND, DONE],
    }
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    whole, killed = Attempts(tmp_path / "whole"), Attempts(tmp_path / "killed")
    wanted = await solve(whole, **scripts)
    with pytest.raises(Died):
        await solve(killed, dies_after=rows, **scripts)
    before = sum(s.kind == "model" and s.result is not None for s in killed.journal.steps("a"))
    assert await solve(killed, **scripts) == wanted
    assert len(killed.model.asked) == len(whole.model.asked) - before
    assert killed.places == whole.places


@pytest.mark.parametrize("skill", [1.0, 0.0])
async def test_the_simulated_model_answers_every_stage(skill: float) -> None:
    """It is right by its skill, and each stage has its role."""
    spec = SimulatedSpec(provider="simulated", skill=skill, exploration=2)
    task = Task(TASK.id, TASK.statement, "HEAD", REFERENCE, TASK.runner)
    workspaces = HostWorkspaces(with_files(FILES))
    models = {"": SimulatedModel(spec, task, 0)}
    async with Session.start(attempt_id="a", models=models, workspaces=workspaces) as session:
        outcome = await ARMS["staged"].solve(task, session, StagedOptions())
        calls = [step for step in session.steps if isinstance(step.result, ModelReply)]
    assert {"explore", "plan", "build"} <= {call.request["role"] for call in calls}
    assert outcome.status == "submitted"
    assert ("+    return a + b" in outcome.patch) == bool(skill)
