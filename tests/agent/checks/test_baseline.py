"""Existing tests on the base commit, and a patch that is compared with them."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.checks import baseline, check_patch
from agent.checks.baseline import TIMED_OUT, BaseRun
from agent.runners import TestRunner
from agent.tools import Protection, TestRun, ToolSettings
from tests.agent.arms.durable.conftest import QUICK
from tests.agent.repositories import with_files
from tests.agent.session.runs import Runs
from tests.agent.workspaces_on_host import HostWorkspaces

FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "tests/test_add.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "tests/test_broken.py": "import os\n\nos._exit(3)\n",
    "tests/test_none.py": "NUMBER = 1\n",
    "tests/test_old.py": "def test_old():\n  assert 0\n\ndef test_new():\n  open('left', 'w')\n",
}
PATHS = sorted(FILES)[1:]
NEW = (
    "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a + b\n+    return"
)
TOOLS = ToolSettings(TestRunner(QUICK))
RAN = TestRun("pytest", 0, [], [], [], "")


@pytest.mark.parametrize(
    ("run", "shows"),
    [
        (RAN, True),
        (replace(RAN, exit_code=1), False),
        (replace(RAN, exit_code=TIMED_OUT), False),
        (replace(RAN, exit_code=TIMED_OUT, passed=["a"]), False),
        (replace(RAN, passed=["a"], problem="cut short"), False),
        (replace(RAN, exit_code=1, passed=["a"], failed=["b"]), True),
        (replace(RAN, failed=["b"]), False),
        (replace(RAN, errors=["b"]), False),
        (replace(RAN, observed=True), False),
        (replace(RAN, reported=True), False),
    ],
)
def test_a_run_shows_something_if_a_test_passes(run: TestRun, shows: bool) -> None:
    """Where the runner names no tests, its exit code decides."""
    assert BaseRun(("t.py",), run, 1.0).shows_something is shows


async def test_files_that_work_are_the_baseline_of_a_patch(tmp_path: Path) -> None:
    """A file that ends the runner is run alone. What a cache has is not run again."""
    runs = Runs(tmp_path)
    runs.workspaces = HostWorkspaces(with_files(FILES))
    cache: dict[str, BaseRun] = {}
    checks = []
    async with runs.session() as session:
        base = session.tree
        before = await baseline(PATHS, TOOLS, Protection(), session, cache=cache)
        steps = len(session.steps)
        some = [path for path in PATHS if path in cache]
        assert await baseline(some, TOOLS, Protection(), session, cache=cache) == before
        assert len(session.steps) == steps
        assert session.tree == base  # without the file that a test leaves
        for patch, tests in (
            (f"{NEW} b + a\n", PATHS),
            (f"{NEW} a - b\n", PATHS[:1]),
            (NEW.replace("def add", "def sum"), []),
        ):
            new = [] if tests == PATHS else PATHS[-1:]
            checks.append(await check_patch(patch, tests, TOOLS, Protection(), session, new))
            await session.take(base)
    good, bad, none = checks
    add, old = "tests/test_add.py", "tests/test_old.py"
    assert before.paths == good.tests == (add, old)
    assert before.run is not None
    assert before.run.exit_code == 1
    assert (good.failures, good.unproven, before.left_out, good.left_out) == ((), "", (), ())
    why = "fails and did not before"
    assert bad.failures == (f"{add}::test_add {why}", f"{old}::test_old {why}")
    assert "assert add(1, 2) == 3" in bad.output
    assert none.failures[0].startswith("the patch does not apply: error: ")
