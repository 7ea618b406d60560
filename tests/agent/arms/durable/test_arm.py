"""The whole durable arm on a small repository, with an honest model."""

import asyncio
import re

import pytest

from agent.arms.durable.roles import TOOLS
from agent.models.protocol import ModelReply, ModelRequest
from tests.agent.arms.durable.conftest import (
    ANCHOR,
    ANCHOR_TEXT,
    FIX,
    SPOIL,
    RoleModel,
    Said,
    Solver,
    answer,
    facts_of,
    report,
)


async def test_an_honest_model_solves_the_task_in_one_step(solve: Solver) -> None:
    """The patch contains only the fix, and the report has four separate statements about it."""
    solved = await solve(with_pytest=True)
    assert solved.outcome.status == "submitted"
    assert "+    return a + b" in solved.outcome.patch
    assert ANCHOR not in solved.outcome.patch
    stated = ("workflow_status", "agent_verdict", "reproduced", "prediction_emitted")
    assert [solved.report[name] for name in stated] == ["completed", "accepted", True, True]
    assert solved.model.roles() == [
        "contract",
        "brief",
        *["anchor"] * 2,
        "planner",
        *["implementer"] * 2,
        "step_reviewer",
        "planner",
        "final_reviewer",
    ]
    for request in solved.model.asked:
        offered = [tool["function"]["name"] for tool in request.tools]
        helpers = ["gather_context"] if request.role == "implementer" else []
        assert offered == [*TOOLS[request.role], *helpers, "answer"]  # type: ignore[index]
    assert solved.report["usage_by_role"]["implementer"]["calls"] == 2
    assert solved.report["usage_by_role"]["contract"]["cost_usd"] == pytest.approx(0.01)
    [step], [final] = solved.report["steps"], solved.report["finals"]
    runs = [(run["exit_code"], run["passed"]) for run in step["candidates"][0]["evidence"]]
    assert runs == [(0, 1), (0, 1)]
    assert len(final["evidence"]) == 2
    assert solved.report["anchor"] == {"path": ANCHOR, "content": ANCHOR_TEXT}


@pytest.mark.parametrize(("confidence", "candidates"), [("high", 1), ("medium", 2), ("low", 4)])
async def test_confidence_decides_how_many_candidates_there_are(
    solve: Solver, confidence: str, candidates: int
) -> None:
    """Lower confidence leads to more candidates, which all begin from the same tree."""
    solved = await solve(implementer=[[FIX], report(confidence=confidence)])
    [step] = solved.report["steps"]
    assert len(step["candidates"]) == candidates
    assert len({candidate["diff"] for candidate in step["candidates"]}) == 1


async def test_a_regression_forces_a_revision(solve: Solver) -> None:
    """A test that passed at the base must pass again, whatever the reproduction test shows."""
    breaks = [FIX, ("edit", {"path": "calc.py", "old": "2 * a", "new": "3 * a"})]
    solved = await solve(implementer=[breaks, report()], profile={"plan_turns": 1})
    [step] = solved.report["steps"]
    assert {candidate["verdict"] for candidate in step["candidates"]} == {"revise"}
    assert step["candidates"][0]["broken"] == [
        "tests/test_calc.py::test_double fails and did not before"
    ]
    assert solved.report["agent_verdict"] == "rejected"
    assert "step_reviewer" not in solved.model.roles()


async def test_candidates_at_the_same_time_do_not_see_each_other(solve: Solver) -> None:
    """Each of several concurrent candidates has only its own file, and one of them is submitted."""
    both_wrote = asyncio.Barrier(2)

    class Waiting(RoleModel):
        async def complete(self, request: ModelRequest) -> ModelReply:
            first = request.scope.endswith("candidate-0")
            if request.role == "implementer" and request.number == 1 and not first:
                async with asyncio.timeout(60):
                    await both_wrote.wait()
            return await super().complete(request)

    def implementer(number: int, request: ModelRequest) -> Said:
        candidate = facts_of(request)["candidate"]
        own = ("write", {"path": f"own_{candidate}.py", "content": "X = 1\n"})
        return [SPOIL if candidate == 0 else FIX, own] if number == 0 else report()

    solved = await solve(implementer=implementer, profile={"parallel": 2}, model=Waiting)
    [step] = solved.report["steps"]
    owns = [sorted(set(re.findall(r"own_\d", each["diff"]))) for each in step["candidates"]]
    assert owns == [["own_0"], ["own_1"], ["own_2"]]
    assert set(re.findall(r"own_\d", solved.outcome.patch)) == {f"own_{step['chosen']}"}


@pytest.mark.slow
async def test_an_attempt_that_runs_out_of_time_reports_its_progress(solve: Solver) -> None:
    """The report has its four statements, and no patch is submitted."""
    uses: Said = [FIX, ("run_command", {"command": "sleep 1000"})]
    solved = await solve(implementer=[uses], brief=["none"], limit_s=15)
    assert (solved.outcome.status, solved.outcome.patch) == ("out_of_time", "")
    stated = ("workflow_status", "agent_verdict", "reproduced", "prediction_emitted")
    values = [solved.report[name] for name in stated]
    assert values == ["out_of_time", "unverified", False, False]


async def test_an_implementer_can_have_context_gathered(solve: Solver) -> None:
    """The implementer is shown the gathered lines, without any from outside the repository."""
    asks: Said = [("gather_context", {"questions": ["what does add do?"]})]
    places = [{"path": "/etc/passwd", "start": 1, "end": 9, "why": "users"}]
    places += [{"path": "calc.py", "start": 1, "end": 2, "why": "add"}]
    solved = await solve(implementer=[asks, [FIX], report()], gatherer=[answer(references=places)])
    assert "calc.py, lines 1 to 2: add\\n1\\tdef add(a, b):" in solved.model.told("implementer")
    assert "root:" not in solved.model.told("implementer")
    assert solved.report["agent_verdict"] == "accepted"


async def test_a_repeated_error_is_worked_on_by_root_cause(solve: Solver) -> None:
    """After the same error twice, planner and implementer get instructions for root causes."""
    solved = await solve(
        implementer=[[SPOIL], report()],
        profile={"candidates": {"low": 1}, "adjudication": False},
    )
    for role in ("planner", "implementer"):
        openings = [r for r in solved.model.asked if r.role == role and r.number == 0]
        told = ["Work by root cause" in opening.messages[0]["content"] for opening in openings]
        assert told == [False, False, True]
        assert [len(facts_of(opening)["earlier_errors"]) for opening in openings] == [0, 1, 2]
