"""Programs of the durable arm's roles: what they write and test counts as with direct calls."""

import pytest

from agent.models.protocol import ModelRequest
from tests.agent.arms.durable.conftest import ANCHOR, ANCHOR_TEXT, Said, Solver, answer, report

pytestmark = [pytest.mark.slow]

FIXING = """
await edit(path="calc.py", old="return a - b", new="return a + b")
done = await run_tests(paths=["tests"])
"""
REPRODUCING = f"""
await write(path={ANCHOR!r}, content={ANCHOR_TEXT!r})
await write(path="notes.md", content="why")
await run_command(command="echo left > left.txt")
"""


def ptc(code: str) -> Said:
    return [("run_ptc", {"code": code})]


def offered(request: ModelRequest) -> bool:
    """Return True if a request offers programs, and its prompt explains them."""
    names = [tool["function"]["name"] for tool in request.tools]
    told = "async def" in str(request.messages[0]["content"])
    assert ("run_ptc" in names) == told
    return told


async def test_what_a_program_writes_is_part_of_the_change(solve: Solver) -> None:
    """A test and a file of a program are there on purpose. A file that its command left is not."""
    work = answer(
        summary="add adds",
        test=ANCHOR,
        related_tests=["tests/test_calc.py"],
        status="done",
        confidence="high",
    )
    replies = [ptc(REPRODUCING), ptc(FIXING + "done['failed']"), work]
    solved = await solve(preset="lean", profile={"ptc": True}, solver=replies)
    assert (solved.report["workflow_status"], solved.report["reproduced"]) == ("completed", True)
    patch = solved.outcome.patch
    assert ("+    return a + b" in patch, "notes.md" in patch) == (True, True)
    assert (ANCHOR in patch, "left.txt" in patch) == (False, False)
    assert solved.report["changes"][0]["strays"] == ["left.txt"]


@pytest.mark.full
async def test_roles_with_tools_may_run_programs(solve: Solver) -> None:
    """An edit and a test run inside a program are evidence. Roles without tools get no programs."""
    asking = "(await gather_context(questions=['where?']))[:7]"
    solved = await solve(profile={"ptc": True}, implementer=[ptc(FIXING + asking), report()])
    [step] = solved.report["steps"]
    candidate = step["candidates"][0]
    assert (candidate["status"], candidate["edited"]) == ("done", ["calc.py"])
    assert candidate["tests_run"] == 1
    assert "value: calc.py" in solved.model.told("implementer")
    found = {request.role: offered(request) for request in solved.model.asked}
    with_tools = ("brief", "anchor", "planner", "implementer", "gatherer")
    assert {role for role, is_offered in found.items() if is_offered} == set(with_tools)
    assert {"contract", "step_reviewer", "final_reviewer"} < found.keys()
