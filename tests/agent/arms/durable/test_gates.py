"""Every gate, with a model that lies."""

from tests.agent.arms.durable.conftest import (
    ANCHOR,
    FIX,
    Said,
    Solver,
    Use,
    answer,
    report,
)

CLAIM = answer(reason="fails", path=ANCHOR, regression_tests=[], reproduced=True)


def anchor(text: str, path: str = ANCHOR) -> list[Said]:
    return [[("write_new", {"path": path, "content": text})], CLAIM]


async def test_success_without_an_edit_leads_to_replanning(solve: Solver) -> None:
    """A claim of success without an edit or a test result leads to replanning."""
    solved = await solve(implementer=[report()], profile={"plan_turns": 1})
    [candidate] = solved.report["steps"][0]["candidates"]
    assert candidate["status"] == "replan"
    assert "without an edit or a test result" in candidate["summary"]
    assert solved.outcome.status == "gave_up"


async def test_a_reproduction_that_is_required_and_missing_blocks(solve: Solver) -> None:
    """Without a required reproduction nothing is planned, and the attempt ends as blocked."""
    solved = await solve(
        anchor=anchor("def test(): assert True\n"), profile={"reproduction": "required"}
    )
    assert solved.report["workflow_status"] == "blocked"
    assert solved.outcome.status == "gave_up"
    assert "planner" not in solved.model.roles()


async def test_changes_to_the_tests_are_reverted(solve: Solver) -> None:
    """A change to tests is reverted and reported, and the reproduction test still fails."""
    cheat: Use = (
        "write",
        {"path": "tests/test_calc.py", "content": "def test_double(): pass\n"},
    )
    solved = await solve(implementer=[[cheat], report()], profile={"plan_turns": 1, "parallel": 4})
    assert solved.report["agent_verdict"] != "accepted"
    assert solved.outcome.patch == ""
    told = [r.messages[-1]["content"] for r in solved.model.asked if r.role == "implementer"]
    assert any("undone" in text for text in told)


async def test_a_destroyed_repository_is_restored_and_reported(solve: Solver) -> None:
    """After a command destroys the repository, it is restored and the attempt continues."""
    uses: Said = [("run_command", {"command": "rm -rf .git"})]
    solved = await solve(implementer=[uses, [FIX], report()])
    assert "Everything was put back" in solved.model.told("implementer")
    assert solved.report["agent_verdict"] == "accepted"


async def test_code_that_destroys_the_repository_fails_its_tests(solve: Solver) -> None:
    """A candidate whose tests destroy the repository fails, and the repository is restored."""
    vandal = "import shutil\nshutil.rmtree('.git')\n\n\ndef add(a, b):\n    return a + b\n"
    uses: Said = [("write", {"path": "calc.py", "content": vandal})]
    solved = await solve(implementer=[uses, report()], profile={"plan_turns": 1})
    broken = [c["broken"] for step in solved.report["steps"] for c in step["candidates"]]
    assert broken
    assert all(broken)
    assert solved.report["agent_verdict"] != "accepted"


async def test_a_refactoring_does_not_start_with_a_test(solve: Solver) -> None:
    """A refactoring breaks no test, so it starts without one even if a reproduction is required."""
    contract = answer(kind="refactor", goal="tidy up", acceptance_criteria=[])
    solved = await solve(contract=[contract], profile={"reproduction": "required"})
    assert "anchor" not in solved.model.roles()
    assert solved.report["workflow_status"] == "completed"
    assert solved.report["not_reproduced_because"] == "a refactor task is not begun with a test"


async def test_an_unchanged_repository_is_not_accepted(solve: Solver) -> None:
    """Without a change nothing is accepted, even if planner and reviewer say it is done."""
    solved = await solve(
        planner=[answer(backlog=[], done=True)],
        profile={"reproduction": "off", "final_rounds": 1},
    )
    assert solved.report["agent_verdict"] == "rejected"
    assert solved.report["finals"][0]["broken"] == ["nothing was changed"]
    assert "final_reviewer" not in solved.model.roles()
