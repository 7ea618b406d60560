"""The lean preset: one conversation, the gates, and the steps after a gate stays closed."""

from collections.abc import Sequence
from typing import Any

import pytest

from agent.models.protocol import ModelRequest
from tests.agent.arms.durable.conftest import (
    ANCHOR,
    ANCHOR_TEXT,
    FIX,
    SPOIL,
    WRITE,
    Said,
    Solved,
    Solver,
    Use,
    answer,
    review,
)

pytestmark = [pytest.mark.slow]

WRONG: Use = ("write", {"path": ANCHOR, "content": ANCHOR_TEXT.replace("== 5", "== 6")})
PINNED = {
    "tests/test_pinned.py": (
        "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == -1\n"
    )
}


def work(**fields: Any) -> Said:
    return answer(
        **{
            "summary": "add adds",
            "test": ANCHOR,
            "related_tests": ["tests/test_calc.py"],
            "status": "done",
            "confidence": "high",
            **fields,
        }
    )


def ruling(cause: str, *tests: str) -> Said:
    return answer(reasons=["the text says so"], cause=cause, tests=list(tests))


PLAN = answer(
    contract={"kind": "bugfix", "goal": "add adds", "acceptance_criteria": []},
    cause="add subtracts",
    approach="add",
    test_idea="add(2, 3) is 5",
    steps=[{"title": "fix", "instructions": "add", "targets": ["calc.py"]}],
)


@pytest.fixture
def lean(solve: Solver) -> Solver:
    """Return a function that runs the lean preset with these replies of the solver."""

    async def run(*replies: Said, **others: Any) -> Solved:
        return await solve(preset="lean", solver=list(replies), **others)

    return run


def closed(solved: Solved) -> list[Sequence[str]]:
    """Return the closed gates of every change, in order."""
    return [change["closed_gates"] for change in solved.report["changes"]]


async def test_the_best_path_is_one_conversation(lean: Solver) -> None:
    """On the best path only the solver is asked, and the patch contains only the code."""
    solved = await lean([WRITE], [FIX], work())
    assert solved.model.roles() == ["solver"] * 3
    assert solved.outcome.status == "submitted"
    assert "return a + b" in solved.outcome.patch
    assert ANCHOR not in solved.outcome.patch
    assert solved.report["workflow_status"] == "completed"
    assert solved.report["reproduced"]
    assert closed(solved) == [[]]


async def test_a_regression_is_repaired_in_the_same_conversation(lean: Solver) -> None:
    """The solver gets the failed check with the failing assertion, and repairs the regression."""
    double: Use = ("edit", {"path": "calc.py", "old": "return 2 * a", "new": "return 3 * a"})
    undo: Use = ("edit", {"path": "calc.py", "old": "return 3 * a", "new": "return 2 * a"})
    solved = await lean([WRITE], [FIX, double], work(), [undo], work())
    assert closed(solved) == [["regression"], []]
    assert "test_double" in solved.model.told("solver")
    assert set(solved.model.roles()) == {"solver"}
    assert "return 2 * a" not in solved.outcome.patch


@pytest.mark.parametrize(
    ("test", "why"),
    [
        (ANCHOR_TEXT.replace("== 5", "== -1"), "passes although nothing has been done"),
        (ANCHOR_TEXT.replace("add\n", "missing as add\n", 1), "by an error"),
        ("def test_add():\n    assert bool(0)\n", "asserts nothing"),
        (
            "import subprocess\n\n\ndef test_add():\n"
            "    assert subprocess.run(['git', 'diff', '--quiet']).returncode == 1\n",
            "passes with any edit",
        ),
    ],
    ids=["passes already", "wrong import", "constant", "any edit"],
)
async def test_an_invalid_reproduction_test_is_corrected(lean: Solver, test: str, why: str) -> None:
    """The solver gets the reason why its test is rejected, and a corrected one opens the gate."""
    bad: Use = ("write", {"path": ANCHOR, "content": test})
    solved = await lean([bad], [FIX], work(), [WRITE], work())
    assert closed(solved)[0] == ["reproduction"]
    assert why in solved.model.told("solver")
    assert solved.report["reproduced"]
    assert solved.report["workflow_status"] == "completed"


async def test_a_wrong_test_is_withdrawn_by_a_ruling(lean: Solver) -> None:
    """The right patch is submitted although the solver's own test still fails."""
    solved = await lean([WRONG], [FIX], work(), adjudicator=[ruling("new_test")])
    assert "return a + b" in solved.outcome.patch
    assert solved.report["workflow_status"] == "completed"
    assert solved.report["withdrawn_tests"] == [ANCHOR]
    assert not solved.report["reproduced"]
    assert solved.model.roles().count("adjudicator") == 1
    assert len(solved.model.asked) <= 6


async def test_an_existing_test_that_the_task_contradicts_is_excepted(lean: Solver) -> None:
    """Only the excepted test may fail, and it is recorded. The gate closes once before."""
    pinned = "tests/test_pinned.py"
    done = work(related_tests=[pinned], conflicting_tests=[f"{pinned}::test_add"])
    solved = await lean(
        [WRITE],
        [FIX],
        done,
        done,
        adjudicator=[ruling("existing_test", f"{pinned}::test_add", "tests/test_calc.py::any")],
        files=PINNED,
    )
    assert "return a + b" in solved.outcome.patch
    assert closed(solved) == [["regression"], []]
    assert solved.report["excepted_tests"] == [f"{pinned}::test_add"]
    assert solved.report["workflow_status"] == "completed"


async def test_another_approach_begins_afresh_with_a_plan(solve: Solver) -> None:
    """A scout sees the failed checks, and the next solver gets its plan and a clean work tree."""

    def solver(number: int, request: ModelRequest) -> Said:
        if request.facts["plan"] is None:
            return [[WRITE], [SPOIL], work()][min(number, 2)]
        return [[WRITE], [FIX], work()][min(number, 2)]

    solved = await solve(preset="lean", solver=solver, adjudicator=[ruling("code")], scout=[PLAN])
    [scouted] = [asked for asked in solved.model.asked if asked.role == "scout"]
    assert "the new test tests/test_anchor.py fails" in str(scouted.messages)
    assert "return a + b" in solved.outcome.patch
    assert solved.report["workflow_status"] == "completed"
    assert solved.report["plans"][0]["approach"] == "add"


async def test_limits_end_the_attempt_and_keep_its_work(lean: Solver) -> None:
    """An attempt that reaches its call limit submits its change without running the tests."""
    solved = await lean([FIX], [WRITE], work(), limits={"step_limit": 2})
    assert len(solved.model.asked) == 2
    assert "return a + b" in solved.outcome.patch
    assert solved.outcome.status == "out_of_steps"
    assert solved.report["workflow_status"] == "out_of_limits"
    assert solved.report["closed_gates"] == ["unverified"]


async def test_a_task_may_be_done_without_a_test(lean: Solver) -> None:
    """A change of code without a test is asked for one once; then the reason is recorded."""
    done = work(test="", no_test_because="it needs a printer")
    solved = await lean([FIX], done)
    assert solved.report["workflow_status"] == "completed"
    assert closed(solved) == [["reproduction"], []]
    assert "write one that fails without the change" in solved.model.told("solver")
    assert solved.report["not_reproduced_because"] == "it needs a printer"


async def test_a_required_test_cannot_be_left_out(lean: Solver) -> None:
    """Without a required test the attempt is blocked, but the change is still submitted."""
    done = work(test="", no_test_because="it is a comment")
    solved = await lean([FIX], done, scout=[PLAN], profile={"reproduction": "required"})
    assert solved.report["workflow_status"] == "blocked"
    assert "return a + b" in solved.outcome.patch


async def test_without_a_change_nothing_is_submitted(lean: Solver) -> None:
    """The solver's word alone opens no gate: without a change nothing is submitted."""
    solved = await lean([WRITE], work(), scout=[PLAN])
    assert solved.outcome.status == "gave_up"
    assert solved.outcome.patch == ""


async def test_a_module_made_by_a_command_stays_if_the_change_imports_it(lean: Solver) -> None:
    """Other files that commands left behind are reported and left out of the patch."""
    make: Use = (
        "run_command",
        {"command": "echo 'def plus(a, b): return a + b' > sums.py; echo x > left.txt"},
    )
    use: Use = (
        "edit",
        {
            "path": "calc.py",
            "old": "def add(a, b):\n    return a - b",
            "new": "from sums import plus\n\n\ndef add(a, b):\n    return plus(a, b)",
        },
    )
    solved = await lean([WRITE], [make], [use], work())
    assert "sums.py" in solved.outcome.patch
    assert "left.txt" not in solved.outcome.patch
    assert solved.report["changes"][-1]["strays"] == ["left.txt"]


async def test_a_review_is_asked_only_once(lean: Solver) -> None:
    """Issues of a review are repaired without a second review."""
    rejecting = [review("revise", "subclasses")]
    solved = await lean(
        [WRITE], [FIX], work(), final_reviewer=rejecting, profile={"review": "always"}
    )
    assert solved.model.roles().count("final_reviewer") == 1
    assert closed(solved) == [["review"], []]
    assert solved.report["workflow_status"] == "completed"
