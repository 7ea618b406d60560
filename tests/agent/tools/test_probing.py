"""A runner works if it can run an existing test."""

import pytest

from agent.runners import PYTEST, TestRunner, runner_of
from agent.tools import ToolSettings
from agent.tools.testing import probe
from agent.workspaces import Workspace

PASSING, FAILING = "tests/unit/test_other.py", "tests/test_core.py"


async def test_another_file_is_tried_where_the_first_has_no_passing_test(host: Workspace) -> None:
    """A file without a passing test may be broken on the base commit, so another file is tried."""
    await host.write("tests/test_empty.py", b"#" * 400)
    files = [FAILING, "tests/test_empty.py", PASSING]
    found = await probe(host, ToolSettings(), files)
    assert found.works
    assert len(found.runs) > 1


async def test_examples_that_fail_are_not_all_that_is_tried(host: Workspace) -> None:
    """The folder with the most test files has its turn, even if all smaller files are elsewhere."""
    failing = b"def test_it():\n    raise AssertionError  # as documented\n" + b"#" * 300
    examples = [f"doc/test_example_{number}.py" for number in range(4)]
    for path in examples:
        await host.write(path, failing)
    for number in range(9):  # as a pattern such as `testing/*/*.py` takes them
        await host.write(f"testing/freeze/tool_{number}.py", b"#" * 300)
        examples.append(f"testing/freeze/tool_{number}.py")
    padding = b"\n" + b"#" * 600
    tests = [f"testing/test_{number}.py" for number in range(5)]
    for path in tests:
        await host.write(path, b"def test_it():\n    assert True\n" + padding)
    found = await probe(host, ToolSettings(runner=PYTEST), [*examples, *tests])
    assert found.works, found.reason


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("python -S -m pytest {paths}", "the test runner did not start: No module named 'pytest'"),
        ("bin/test {paths}", "ended before its runner did, with exit code 1: FileNotFoundError"),
        ("no-such-runner {paths}", "exit code 127, and no test passed: bash: "),
        ("python -m pytest --no-such-option {paths}", "exit code is 4, although no test failed"),
        ("false {paths}", "exit code 1, and no test passed: no output"),
    ],
)
async def test_a_runner_that_does_not_work(host: Workspace, command: str, reason: str) -> None:
    """The reason why a runner does not work is one line."""
    found = await probe(host, ToolSettings(runner=runner_of(command)), [PASSING])
    assert not found.works
    assert reason in found.reason
    assert "\n" not in found.reason


async def test_some_runners_give_only_an_exit_code(host: Workspace) -> None:
    """For runners that only give an exit code, 0 is enough."""
    found = await probe(host, ToolSettings(runner=TestRunner("true {paths}")), [PASSING])
    assert found.works


async def test_a_repository_without_tests(host: Workspace) -> None:
    """Without test files the probe runs nothing and fails."""
    found = await probe(host, ToolSettings(), [])
    assert (found.works, found.runs) == (False, [])
