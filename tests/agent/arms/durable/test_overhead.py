"""An attempt of the lean preset asks git about its work trees as rarely as it can."""

from collections import Counter
from typing import Any

import pytest

from agent.workspaces import Workspace
from tests.agent.arms.durable.conftest import (
    ANCHOR,
    FIX,
    SPOIL,
    WRITE,
    Said,
    Solver,
    Use,
    answer,
)

pytestmark = pytest.mark.slow

LOOK: Use = ("run_command", {"command": "cat calc.py; sleep 0.1"})
MEND: Use = ("edit", {"path": "calc.py", "old": "return a * b", "new": "return a + b"})
DONE: Said = answer(
    summary="add adds",
    test=ANCHOR,
    related_tests=["tests/test_calc.py"],
    status="done",
    confidence="high",
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The functions of `work_tree.sh`, by how often they were called."""
    calls: Counter[str] = Counter()
    work_tree = Workspace._work_tree

    async def counted(self: Workspace, work: str, **options: Any) -> Any:
        calls[work.splitlines()[-1].removeprefix("firmly ").split()[0]] += 1
        return await work_tree(self, work, **options)

    monkeypatch.setattr(Workspace, "_work_tree", counted)
    return calls


async def test_the_best_path(solve: Solver, asked: Counter[str]) -> None:
    """One look for each step that may have changed files, and none for those that only read."""
    solved = await solve(preset="lean", solver=[[LOOK], [WRITE], [LOOK], [FIX], [LOOK], DONE])
    assert solved.report["workflow_status"] == "completed"
    # Two edits; the new test written twice, run twice and once with the change; another edit
    # beside it; two runs of existing tests and a probe; the patch. These are eleven looks. A run
    # that ends within a tick of the clock is looked at once more, and on a busy machine several do.
    assert asked["survey"] <= 15
    assert asked["checkpoint"] + asked["changes_since"] + asked["put_back"] <= 1
    assert asked["patch"] == 1
    assert asked["restore"] + asked["restore_opening"] <= 2


async def test_a_stuck_path(solve: Solver, asked: Counter[str]) -> None:
    """Each repair is looked at once more, and judged on a copy of its own."""
    wrong_then_right = [[WRITE], [SPOIL], DONE, [LOOK], DONE, [MEND], DONE]
    solved = await solve(
        preset="lean",
        solver=wrong_then_right,
        adjudicator=[answer(reasons=["text"], cause="code")],
    )
    assert solved.report["workflow_status"] == "completed"
    assert len(solved.report["changes"]) == 3
    assert asked["survey"] <= 28
    assert asked["checkpoint"] + asked["changes_since"] + asked["put_back"] <= 2
    assert asked["patch"] == 3
    assert asked["restore"] + asked["restore_opening"] <= 3
