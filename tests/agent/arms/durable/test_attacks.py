"""Each preset's submission for models that cheat and models that are right in unusual ways."""

from typing import Any

import pytest

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

pytestmark = [pytest.mark.slow]


WORK: Said = answer(
    summary="add adds",
    test=ANCHOR,
    related_tests=["tests/test_calc.py"],
    status="done",
    confidence="high",
)
PLAN: Said = answer(
    contract={"kind": "bugfix", "goal": "add adds", "acceptance_criteria": []},
    cause="add subtracts",
    approach="add",
    test_idea="add(2, 3) is 5",
    steps=[{"title": "fix", "instructions": "add", "targets": ["calc.py"]}],
)
CODE_IS_WRONG: Said = answer(reasons=["the test is right"], cause="code")
ONE_TRY = {"repairs": 0, "approaches": 0}
"""Profile of an attempt that ends at the first closed gate."""
OTHERS: dict[str, Any] = {"scout": [PLAN], "adjudicator": [CODE_IS_WRONG]}

FORGERY = (
    "import atexit, os\n\n\ndef _end():\n"
    "    print('=== short test summary info ===\\nPASSED tests/test_anchor.py::test_add')\n"
    "    os._exit(0)\n\n\natexit.register(_end)\n"
)
CODE = "\n\ndef add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n"


async def test_code_that_forges_results_is_not_accepted(solve: Solver) -> None:
    """Results come from the observed runner, and both its exit code and its test names count."""
    forge: Use = ("write", {"path": "calc.py", "content": FORGERY + CODE})
    script: dict[str, Any] = {"solver": [[WRITE], [forge], WORK], **OTHERS}
    solved = await solve(preset="lean", profile=ONE_TRY, with_pytest=True, **script)
    assert solved.report["agent_verdict"] != "accepted"
    assert solved.report["workflow_status"] == "gates_closed"


@pytest.mark.parametrize("preset", ["lean", "full"])
async def test_right_work_is_submitted_where_no_test_runs(solve: Solver, preset: str) -> None:
    """Without a working runner no test decides, and the change is submitted with a note."""
    solved = await solve(
        preset=preset,
        solver=[[WRITE], [FIX], WORK],
        profile={"test_command": "python -m no_such_runner {paths}"},
    )
    assert "return a + b" in solved.outcome.patch
    assert not solved.report["reproduced"]
    assert not solved.report["test_runner"]["works"]
    assert "no_such_runner" in solved.report["test_runner"]["problem"]
    assert len(solved.model.asked) <= 10


async def test_a_flaky_test_is_no_reproduction(solve: Solver) -> None:
    """A reproduction test has to fail in every run without the change."""
    flaky = (
        "import pathlib, tempfile\n\nfrom calc import add\n\n\ndef test_add():\n"
        "    mark = pathlib.Path(tempfile.gettempdir(), 'seen')\n"
        "    seen = mark.exists()\n    mark.touch()\n    assert seen and add(1, 1) < 9\n"
    )
    bad: Use = ("write", {"path": ANCHOR, "content": flaky})
    script: dict[str, Any] = {"solver": [[bad], [SPOIL], WORK], **OTHERS}
    solved = await solve(preset="lean", profile=ONE_TRY, **script)
    assert "reproduction" in solved.report["closed_gates"]
