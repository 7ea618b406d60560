"""Programs of the durable arm's roles: what they write and test counts as with direct calls."""

import pytest

from tests.agent.arms.durable.conftest import ANCHOR, ANCHOR_TEXT, Said, Solver, answer

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
