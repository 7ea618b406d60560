"""A change that people review has its tests, and the existing tests also run as they were."""

from dataclasses import replace

import pytest

from tests.agent.arms.durable.conftest import ANCHOR, FIX, TASK, WRITE, Solver, Use, answer, review
from tests.agent.arms.durable.test_lean import closed, work

pytestmark = [pytest.mark.slow]

REVIEWED = replace(TASK, for_reviewers=True)
TESTS = "tests/test_calc.py"


def append(text: str) -> Use:
    """Return the call that adds a test at the end of the existing file."""
    new = f"from calc import add, double\n\n\ndef test_added():\n    {text}\n\n\ndef test_double"
    return (
        "edit",
        {"path": TESTS, "old": "from calc import double\n\n\ndef test_double", "new": new},
    )


RIGHT = append("assert add(2, 3) == 5")


async def test_a_repair_has_its_test_in_an_existing_file(solve: Solver) -> None:
    solved = await solve(
        preset="lean", task=REVIEWED, solver=[[RIGHT], [FIX], work(test=TESTS, related_tests=[])]
    )
    assert closed(solved) == [[]]
    assert solved.report["reproduced"]
    assert "+    return a + b" in solved.outcome.patch
    assert "+    assert add(2, 3) == 5" in solved.outcome.patch


@pytest.mark.parametrize("use", [RIGHT, WRITE], ids=["existing file", "new file"])
async def test_tests_alone_are_a_change(solve: Solver, use: Use) -> None:
    """They have to pass. The code that they test is right here."""
    done = work(test="", no_test_because="the task asks for tests")
    solved = await solve(
        preset="lean",
        task=REVIEWED,
        solver=[[use], done],
        files={
            "calc.py": "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return 2 * a\n"
        },
    )
    assert closed(solved) == [[]]
    assert "+    assert add(2, 3) == 5" in solved.outcome.patch


async def test_a_new_test_that_fails_keeps_a_gate_closed(solve: Solver) -> None:
    done = work(test="", no_test_because="the task asks for tests")
    wrong = append("assert double(2) == 5")
    mend: Use = ("edit", {"path": TESTS, "old": "assert double(2) == 5", "new": "assert double(1)"})
    solved = await solve(preset="lean", task=REVIEWED, solver=[[wrong], done, [mend], done])
    assert closed(solved) == [["new_test"], []]
    assert "+    assert double(1)" in solved.outcome.patch


async def test_an_existing_test_also_runs_as_it_was(solve: Solver) -> None:
    """A change that passes only with its own version of an existing test is a regression."""
    double: Use = ("edit", {"path": "calc.py", "old": "return 2 * a", "new": "return 3 * a"})
    spoil: Use = ("edit", {"path": TESTS, "old": "double(2) == 4", "new": "double(2) == 6"})
    solved = await solve(
        preset="lean",
        task=REVIEWED,
        profile={"repairs": 0, "approaches": 0},
        solver=[[WRITE], [FIX, double, spoil], work()],
    )
    assert closed(solved)[0] == ["regression"]
    assert "test_double" in str(solved.report["failed_checks"])


async def test_the_full_preset_submits_its_test(solve: Solver) -> None:
    solved = await solve(task=REVIEWED)
    assert solved.report["workflow_status"] == "completed"
    assert f"+++ b/{ANCHOR}" in solved.outcome.patch
    assert "+    return a + b" in solved.outcome.patch


@pytest.mark.parametrize("verdict", ["accept", "revise"])
async def test_the_full_preset_answers_without_a_change(solve: Solver, verdict: str) -> None:
    """If a reviewer accepts the answer. A benchmark accepts none."""
    planner = [answer(facts=["add subtracts", "in calc.py"], backlog=[], done=True)]
    asked = replace(REVIEWED, statement="What does add do?")
    contract = [answer(kind="docs", goal="say it", acceptance_criteria=["it is said"])]
    roles = {"planner": planner, "contract": contract, "final_reviewer": [review(verdict)]}
    solved = await solve(task=asked, **roles)
    assert "add subtracts" in solved.model.told("final_reviewer")
    assert (solved.outcome.status == "submitted") == (verdict == "accept")
    assert (solved.outcome.detail == "add subtracts\nin calc.py") == (verdict == "accept")
    graded = await solve(**roles)
    assert graded.outcome.status == "gave_up"
