"""Results of test runs are observed or read from a summary, whatever the tests print."""

import pytest

from agent.runners import TestRunner
from agent.tools import Toolbox, ToolSettings, run_paths
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
def test_type(): len(3)
def test_no_raise():
    with pytest.raises(ValueError): pass
def test_fixture(unknown): pass
class TestCase(__import__("unittest").TestCase):
    def test_equal(self): self.assertEqual(1, 2)
    def test_division(self): 1 / 0
    def test_skipped(self): self.skipTest("why")
    def test_good(self): pass
"""


async def test_every_test_ends_in_one_list(host: Workspace, implementer: Toolbox) -> None:
    """Failed assertions are listed apart from errors, and each failure has its own report."""
    await host.write("checks.py", EVERY_ENDING.encode())
    result = await implementer.use(host, "run_tests", {"paths": ["checks.py", "tests"]})
    assert not result.ok
    tests = result.tests
    assert tests is not None
    assert tests.command == ("python -m pytest -q -rfE -p no:cacheprovider checks.py tests")
    assert tests.exit_code == result.exit_code == 1
    assert sorted(tests.passed) == [
        "checks.py::TestCase::test_good",
        "checks.py::test_many[a - b]",
        "checks.py::test_many[f g]",
        "checks.py::test_pass",
        "checks.py::test_xpass",
        "tests/unit/test_other.py::test_true",
    ]
    assert sorted(tests.failed) == [
        "checks.py::TestCase::test_equal",
        "checks.py::test_fail",
        "checks.py::test_many[c]d - e]",
        "checks.py::test_no_raise",
        "tests/test_core.py::test_add",
    ]
    assert sorted(tests.errors) == [
        "checks.py::TestCase::test_division",
        "checks.py::test_fixture",
        "checks.py::test_setup",
        "checks.py::test_type",
    ]
    assert sorted(tests.skipped) == [
        "checks.py::TestCase::test_skipped",
        "checks.py::test_skip",
        "checks.py::test_xfail",
    ]
    assert set(tests.reports) == {*tests.failed, *tests.errors}
    assert "DID NOT RAISE" in tests.reports["checks.py::test_no_raise"]
    assert "fixture 'unknown' not found" in tests.reports["checks.py::test_fixture"]
    assert (tests.observed, tests.problem) == (True, "")
    assert tests.output == result.output


async def test_one_test_is_run_by_its_id(workspace: Workspace, implementer: Toolbox) -> None:
    """A test can be run by its id, and a run that succeeds is reported as ok."""
    name = "tests/unit/test_other.py::test_true"
    result = await implementer.use(workspace, "run_tests", {"paths": [name]})
    assert result.ok, result.output
    assert result.tests is not None
    assert (result.tests.exit_code, result.tests.passed) == (0, [name])
    assert result.tests.observed


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
    """A file that cannot be collected, has no tests or ends the runner has no passed test."""
    await host.write("checks.py", content.encode())
    result = await implementer.use(host, "run_tests", {"paths": ["checks.py"]})
    assert result.tests is not None
    assert (result.tests.exit_code, result.tests.errors) == (exit_code, errors)
    assert result.tests.passed == result.tests.failed == []


async def test_another_runner_and_its_timeout(host: Workspace) -> None:
    """Any command can run the tests. After its timeout the result has the output so far."""
    settings = ToolSettings(runner=TestRunner("echo ran {paths}; sleep 1234"), test_timeout_s=1)
    result = await Toolbox(["run_tests"], settings=settings).use(
        host, "run_tests", {"paths": ["tests/unit", "it's.py"]}
    )
    assert result.tests is not None
    assert (result.tests.exit_code, result.tests.passed) == (124, [])
    assert result.output.startswith("ran tests/unit it's.py\n")
    assert "the tests took longer than 1 s and were ended" in result.output


def test_colours_are_ignored() -> None:
    """A summary is read even if the project's settings colour it."""
    output = (
        "\x1b[36m\x1b[1m=== short test summary info ===\x1b[0m\n"
        "\x1b[32mPASSED\x1b[0m a.py::\x1b[1mtest_a\x1b[0m\n"
        "\x1b[31mFAILED\x1b[0m a.py::\x1b[1mtest_b\x1b[0m - assert 1\n"
    )
    tests = parse("pytest", 1, output)
    assert (tests.passed, tests.failed) == (["a.py::test_a"], ["a.py::test_b"])


async def test_a_command_may_have_braces_of_its_own(host: Workspace) -> None:
    """Only `{paths}` is replaced in a command."""
    settings = ToolSettings(
        runner=TestRunner("for f in {paths}; do echo ${f} | awk '{print $1}'; done")
    )
    tools = Toolbox(["run_tests"], settings=settings)
    result = await tools.use(host, "run_tests", {"paths": ["tests/test_core.py"]})
    assert "tests/test_core.py" in result.output


EDITED = """
from pathlib import Path
def test_edited(): assert {expected!r} == Path("docs/{name}").read_bytes()
"""


@pytest.mark.parametrize(
    ("removed", "name", "expected"),
    [
        ("", "crlf.txt", b"un\r\ndeux\r\ntrois\r\n\n"),
        ("crlf.txt", "latin.txt", b"caf\xe9\nth\xe9\n\n"),
    ],
    ids=["the first text", "a text that exists"],
)
async def test_a_text_differs_for_the_time_of_a_run(
    host: Workspace, removed: str, name: str, expected: bytes
) -> None:
    """Tests see a text with one more line. Afterwards, the work tree is as it was before."""
    await host.run(f"cd docs && rm -f {removed or 'nothing'}", timeout_s=10)
    await host.write("checks.py", EDITED.format(name=name, expected=expected).encode())
    before = await host.tree()
    done = await run_paths(host, ToolSettings(), ["checks.py"], beside_an_edit=True)
    assert (done.passed, done.exit_code) == (["checks.py::test_edited"], 0)
    assert await host.tree() == before
    assert (await run_paths(host, ToolSettings(), ["checks.py"])).exit_code == 1


async def test_without_a_file_to_edit_a_run_proves_nothing(host: Workspace) -> None:
    """Tests that pass with any edit would get past a run that nothing was edited beside."""
    await host.write("checks.py", b"def test_true(): pass\n")
    await host.run("git rm -rq --cached .", timeout_s=10)
    done = await run_paths(host, ToolSettings(), ["checks.py"], beside_an_edit=True)
    assert (done.passed, done.exit_code) == ([], 1)
    assert done.problem
    assert "no file can be edited" in done.output


async def test_a_path_that_does_not_exist_is_named(host: Workspace, implementer: Toolbox) -> None:
    """The other paths are run. Without any other, the use is refused in one line."""
    result = await implementer.use(
        host, "run_tests", {"paths": ["tests/test_none.py::test_x", "tests/unit"]}
    )
    assert result.output.startswith("tests/test_none.py is not a file of the repository\n")
    assert result.tests is not None
    assert result.tests.passed == ["tests/unit/test_other.py::test_true"]
    refused = await implementer.use(host, "run_tests", {"paths": ["tests/test_none.py"]})
    assert not refused.ok
    assert refused.tests is None
    assert refused.output == "tests/test_none.py is not a file of the repository"
