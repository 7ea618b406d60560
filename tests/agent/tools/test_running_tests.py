"""The result of a test run is read from its summary, whatever the tests print."""

import pytest

from agent.tools import Toolbox, ToolSettings
from agent.tools.testing import parse
from agent.workspaces import Workspace

EVERY_ENDING = """
import pytest
def test_pass(): print("=== short test summary info ===\\nPASSED forged::test")
def test_fail(): assert [1] == [2], "a - b"
@pytest.mark.parametrize("x", ["a - b", "c]d - e", "f g"])
def test_many(x): assert x != "c]d - e"
@pytest.fixture
def broken(): raise ValueError("no")
def test_setup(broken): pass
def test_skip(): pytest.skip("why")
@pytest.mark.xfail
def test_xfail(): assert False
@pytest.mark.xfail
def test_xpass(): pass
"""


async def test_every_test_ends_in_one_list(host: Workspace, implementer: Toolbox) -> None:
    """Passed, failed and broken ones, with odd parameters; skipped ones are in none."""
    await host.write("checks.py", EVERY_ENDING.encode())
    result = await implementer.use(host, "run_tests", {"paths": ["checks.py", "tests"]})
    assert not result.ok
    tests = result.tests
    assert tests is not None
    assert tests.command == (
        "python -m pytest -q -rA --no-header -p no:cacheprovider checks.py tests"
    )
    assert tests.exit_code == result.exit_code == 1
    assert sorted(tests.passed) == [
        "checks.py::test_many[a - b]",
        "checks.py::test_many[f g]",
        "checks.py::test_pass",
        "checks.py::test_xpass",
        "tests/unit/test_other.py::test_true",
    ]
    assert sorted(tests.failed) == [
        "checks.py::test_fail",
        "checks.py::test_many[c]d - e]",
        "tests/test_core.py::test_add",
    ]
    assert tests.errors == ["checks.py::test_setup"]
    assert tests.output == result.output


async def test_one_test_is_run_by_its_id(host: Workspace, implementer: Toolbox) -> None:
    """And success is ok."""
    name = "tests/unit/test_other.py::test_true"
    result = await implementer.use(host, "run_tests", {"paths": [name]})
    assert result.ok
    assert result.tests is not None
    assert (result.tests.exit_code, result.tests.passed) == (0, [name])


@pytest.mark.parametrize(
    ("content", "exit_code", "errors"),
    [
        ("import nowhere", 2, ["checks.py"]),
        ("def test_(:", 2, ["checks.py"]),
        ("x = 1", 5, []),
        ("import os; os._exit(0)", 0, []),
    ],
)
async def test_a_file_that_runs_nothing(
    host: Workspace, implementer: Toolbox, content: str, exit_code: int, errors: list[str]
) -> None:
    """Cannot be collected, has no tests, or ends the runner: no test passed."""
    await host.write("checks.py", content.encode())
    result = await implementer.use(host, "run_tests", {"paths": ["checks.py"]})
    assert result.tests is not None
    assert (result.tests.exit_code, result.tests.errors) == (exit_code, errors)
    assert result.tests.passed == result.tests.failed == []


async def test_another_runner_and_its_timeout(host: Workspace) -> None:
    """The command is a setting; of a runner without pytest's summary only its end is known."""
    settings = ToolSettings(test_command="echo ran {paths}; sleep 1234", test_timeout_s=1)
    result = await Toolbox(["run_tests"], settings=settings).use(
        host, "run_tests", {"paths": ["tests/unit", "it's.py"]}
    )
    assert result.tests is not None
    assert (result.tests.exit_code, result.tests.passed) == (124, [])
    assert result.output.startswith("ran tests/unit it's.py\n")
    assert "the tests took longer than 1 s and were ended" in result.output


def test_colours_are_seen_through() -> None:
    """As a project's own settings may ask for them."""
    output = (
        "\x1b[36m\x1b[1m=== short test summary info ===\x1b[0m\n"
        "\x1b[32mPASSED\x1b[0m a.py::\x1b[1mtest_a\x1b[0m\n"
        "\x1b[31mFAILED\x1b[0m a.py::\x1b[1mtest_b\x1b[0m - assert 1\n"
    )
    tests = parse("pytest", 1, output)
    assert (tests.passed, tests.failed) == (["a.py::test_a"], ["a.py::test_b"])


async def test_a_command_may_have_braces_of_its_own(host: Workspace) -> None:
    """Only `{paths}` stands for something."""
    settings = ToolSettings(test_command="for f in {paths}; do echo ${f} | awk '{print $1}'; done")
    tools = Toolbox(["run_tests"], settings=settings)
    result = await tools.use(host, "run_tests", {"paths": ["tests/test_core.py"]})
    assert "tests/test_core.py" in result.output
