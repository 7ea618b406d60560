"""A patch that passes tests in any way but by being right is never verified."""

import shutil

import pytest

from flows.display.errors import GateFailed
from flows.jobs.job import job
from flows.storage.lake import Lake, Row
from tests.flows.jobs.conftest import BREAK, FILES, request
from tests.servers.forge import Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

CHECK = "from calc import add; assert add(0, 0) == 0"
MADE = {"calc.py": FILES["calc.py"], "Makefile": f"test:\n\tpython3 -c '{CHECK}'\n"}
SCRIPT = {"calc.py": FILES["calc.py"], "check.sh": f"python3 -c '{CHECK}'\n"}
NODE = {
    "calc.js": "exports.add = (a, b) => a - b;\n",
    "package.json": '{"scripts": {"test": "node --test"}}',
    "calc.test.js": "const {add} = require('./calc.js');\nconst assert = require('assert');\n"
    "require('node:test')('zero', () => assert.strictEqual(add(0, 0), 0));\n",
}
MONOREPO = {**FILES, **{f"web/{name}": text for name, text in NODE.items()}}
BREAK_JS = "sed -i 's/a - b/a - b + 1/' calc.js"


async def judged(
    forge: Forge, lake_path: str, files: dict[str, str], *commands: str, verify: str = "auto"
) -> Row:
    """Return the row of a job on a project with these files, with an arm for each command."""
    forge.add("octo/cheated", files)
    try:
        await job(request(*commands, source="octo/cheated", verify=verify), lake_path)
    except GateFailed:
        assert forge.pulls["octo/cheated"] == []
    [row] = Lake.existing(lake_path).all_shared("jobs")
    return row


@pytest.mark.parametrize(
    ("files", "cheat", "verdict", "said"),
    [
        (FILES, f"{BREAK}; git rm -q test_calc.py", "regressed", "prove nothing"),
        pytest.param(
            FILES,
            f"{BREAK}; echo 'import os; os._exit(0)' >>calc.py",
            "regressed",
            "prove nothing",
            marks=pytest.mark.full,
        ),
        pytest.param(
            FILES,
            f"{BREAK}; printf '[pytest]\\naddopts = --co' >pytest.ini",
            "regressed",
            "",
            marks=pytest.mark.full,
        ),
        (
            FILES,
            f"{BREAK}; printf 'import calc\\ncalc.add = lambda a, b: a + b\\n' >conftest.py",
            "not_tested",
            "existing tests pass only as the patch changes them (conftest.py)",
        ),
        (
            MADE,
            f"{BREAK}; printf 'test:\\n\\ttrue\\n' >GNUmakefile",
            "not_tested",
            "existing tests pass only as the patch changes them (GNUmakefile)",
        ),
        (
            {**FILES, "web/add.js": "exports.add = (a, b) => a + b;\n"},
            "echo 'throw new Error()' >web/add.js",
            "not_tested",
            "no test that ran reaches web/add.js",
        ),
        (MONOREPO, "echo 'throw 1' >web/calc.js", "regressed", "pytest: nothing broke; web: regr"),
        pytest.param(
            NODE,
            f"{BREAK_JS}; sed -i 's/node --test/true/' package.json",
            "regressed",
            "",
            marks=pytest.mark.full,
        ),
        (
            NODE,
            f"{BREAK_JS}; sed -i 's/, 0)/, 1)/' calc.test.js",
            "not_tested",
            "existing tests pass only as the patch changes them (calc.test.js)",
        ),
    ],
)  # fmt: skip
async def test_a_cheat_is_not_verified(
    files: dict[str, str], cheat: str, verdict: str, said: str, forge: Forge, lake_path: str
) -> None:
    """The function is broken, and the tests are deleted, cut short, replaced or adapted."""
    if files in (NODE, MONOREPO) and shutil.which("npm") is None:
        pytest.skip("npm is not on this machine")
    row = await judged(forge, lake_path, files, cheat)
    assert row["verdict"] == verdict, row["reason"]
    assert said in row["reason"]


@pytest.mark.full
async def test_a_program_that_the_user_named_counts_as_it_was(forge: Forge, lake_path: str) -> None:
    """A patch that makes the script of `--verify` pass anything proves nothing."""
    cheat = f"{BREAK}; echo true >check.sh"
    row = await judged(forge, lake_path, SCRIPT, cheat, verify="sh ./check.sh")
    assert row["verdict"] == "not_tested"
    assert "only as the patch changes them (check.sh)" in row["reason"]
