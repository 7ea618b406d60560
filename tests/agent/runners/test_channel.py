"""Records of a run either prove the results of its tests or prove nothing."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent.runners import ObservedResults, prepare, runner_of
from agent.runners.runner import results
from tests.agent.runners.running import ENDINGS_OF_UNITTEST, PYTEST, UNITTEST, launch, recorded

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded.json").read_text())

PYTEST_OUTCOMES = {
    "test_pass": "passed",
    "test_assert": "failed",
    "test_type": "error",
    "test_no_raise": "failed",
    "test_fixture": "error",
    "test_skip": "skipped",
    "test_xfail": "skipped",
    "TestCase::test_equal": "failed",
    "TestCase::test_division": "error",
    "TestCase::test_pass": "passed",
    "TestCase::test_skipped": "skipped",
}
UNITTEST_OUTCOMES = {
    "test_pass": "passed",
    "test_equal": "failed",
    "test_division": "error",
    "test_parts": "failed",
    "test_skip": "skipped",
    "test_expected": "skipped",
    "test_inner": "passed",
}
SYMPY_OUTCOMES = {
    "test_pass": "passed",
    "test_assert": "failed",
    "test_division": "error",
    "test_no_raise": "failed",
    "test_xfail": "skipped",
}


def expected(release: str) -> dict[str, str]:
    """Return the expected outcomes of the tests of `running.py` by full name."""
    if release.startswith("pytest"):
        return {f"test_endings.py::{name}": kind for name, kind in PYTEST_OUTCOMES.items()}
    if release.startswith("Django"):
        start = "test_endings.TestEndings."
        return {f"{start}{name}": kind for name, kind in UNITTEST_OUTCOMES.items()}
    start = "sympy/core/tests/test_endings.py::"
    return {f"{start}{name}": kind for name, kind in SYMPY_OUTCOMES.items()}


@pytest.mark.parametrize("release", RECORDED)
def test_records_of_real_runners(release: str) -> None:
    """Every version of pytest and every other runner records the same outcomes."""
    message = RECORDED[release]
    read = results(message["exit_code"], message["records"], message["problem"])
    assert (read.exit_code, read.problem) == (1, "")
    assert {test.name: test.outcome for test in read.tests} == expected(release)
    assert all(test.report for test in read.tests if test.outcome in ("failed", "error"))


BEGIN, END = ["begin", "pytest"], ["end", "0"]
PASSED = [
    ["collected", "a"],
    ["result", "a", "setup", "passed", ""],
    ["result", "a", "call", "passed", ""],
    ["result", "a", "teardown", "passed", ""],
]
FAILED = [*PASSED[:2], ["result", "a", "call", "failed", "assert"], PASSED[3]]


def read(*records: list[str], exit_code: int = 0, problem: str = "") -> ObservedResults:
    """Return the results of these records."""
    return results(exit_code, records, problem)


def test_a_pass_has_all_its_records() -> None:
    """A passed test has records of its start, its phases, its end and a matching exit code."""
    done = read(BEGIN, *PASSED, END)
    assert (done.problem, [test.outcome for test in done.tests]) == ("", ["passed"])


@pytest.mark.parametrize(
    ("done", "problem"),
    [
        (read(exit_code=1), "did not start"),
        (read(BEGIN, *PASSED), "ended before its runner did"),
        (read(BEGIN, *PASSED, END, exit_code=1), "its process with 1"),
        (read(BEGIN, *FAILED, END), "although tests failed, such as a"),
        (read(BEGIN, *PASSED, ["end", "4"], exit_code=4), "although no test failed"),
        (read(BEGIN, END), "no test ran"),
        (read(BEGIN, *PASSED[:3], END), "without an end, such as a"),
        (read(BEGIN, *PASSED, ["collected", "b"], END), "without an end, such as b"),
        (read(BEGIN, *PASSED, ["tampered", "x.y"], END), "changed x.y"),
        (read(BEGIN, *PASSED, END, problem="not signed"), "not signed"),
    ],
)
def test_records_that_prove_nothing(done: ObservedResults, problem: str) -> None:
    """Records that are incomplete or contradict the exit code give a problem instead of results."""
    assert problem in done.problem


def test_a_test_that_did_not_run_itself_has_not_passed() -> None:
    """A test with only setup and teardown, or with an unknown outcome, counts as an error."""
    [around] = read(BEGIN, PASSED[0], PASSED[1], PASSED[3], END).tests
    assert around.outcome == "error"
    [unknown] = read(BEGIN, ["result", "a", "call", "great", ""], END).tests
    assert unknown.outcome == "error"


def test_the_worst_phase_counts() -> None:
    """A test whose teardown fails has not passed."""
    broken = ["result", "a", "teardown", "error", "no"]
    [test] = read(BEGIN, *PASSED[:3], broken, ["end", "1"], exit_code=1).tests
    assert (test.outcome, test.report) == ("error", "no")


def test_only_the_launcher_can_seal_results() -> None:
    """A forged message, or a message of another run, is not read."""
    run, other = prepare(runner_of(PYTEST), ["a"]), prepare(runner_of(PYTEST), ["a"])
    assert run is not None
    assert other is not None
    forged = f"text\n{run._mark} e30= {'0' * 64}\n"
    assert run.read(forged) == ("text", None)
    assert run.read(f"text\n{other._mark} e30= {'0' * 64}\n")[1] is None
    assert run.read("text") == ("text", None)


def test_unittest_by_modules(tmp_path: Path) -> None:
    """The observer of unittest works for modules as it does for Django."""
    (tmp_path / "test_endings.py").write_text(ENDINGS_OF_UNITTEST)
    message = recorded(UNITTEST, "test_endings.py", tmp_path)
    read = results(message["exit_code"], message["records"], message["problem"])
    assert (read.exit_code, read.problem) == (1, "")
    assert {test.name: test.outcome for test in read.tests} == expected("Django")


CHEATS_OF_UNITTEST = {
    "replaces the result": "unittest.TestResult.addFailure = unittest.TestResult.addSuccess",
    "reports nothing": "unittest.TestResult.addFailure = lambda *given: None",
    "calls everything equal": "unittest.TestCase.assertEqual = lambda *given: None",
    "ends at exit": "import atexit, os\natexit.register(os._exit, 0)",
    "ends": "import os\nos._exit(0)",
}


def test_cheats_of_unittest(tmp_path: Path) -> None:
    """Code that changes unittest's own classes or ends the process is detected."""
    (tmp_path / "test_calc.py").write_text(
        "import calc\nfrom unittest import TestCase\n\n\nclass TestCalc(TestCase):\n"
        "    def test_calc(self):\n        self.assertEqual(1, 2)\n"
    )
    for code in CHEATS_OF_UNITTEST.values():
        (tmp_path / "calc.py").write_text(f"import unittest\n{code}\n")
        message = recorded(UNITTEST, "test_calc.py", tmp_path)
        assert results(message["exit_code"], message["records"], message["problem"]).problem


def test_a_missing_runner_is_reported(tmp_path: Path) -> None:
    """An interpreter without pytest, which exits with 1, is not taken for a failing test."""
    run = prepare(runner_of("python -S -m pytest {paths}"), ["test_a.py"])
    assert run is not None
    done = launch(run, tmp_path, os.environ)
    text, found = run.read(done.stdout)
    assert "No module named 'pytest'" in text
    assert found is not None
    assert (found.exit_code, found.problem) == (1, "the test runner did not start")


def test_options_of_the_environment_are_ignored(tmp_path: Path) -> None:
    """Options from the environment are ignored, because an agent's command could set them."""
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    run = prepare(runner_of(PYTEST), ["test_a.py"])
    assert run is not None
    options = {"PYTEST_ADDOPTS": "--co", "PYTEST_PLUGINS": "nowhere"}
    done = launch(run, tmp_path, {**os.environ, **options})
    found = run.read(done.stdout)[1]
    assert found is not None
    assert (found.problem, len(found.tests)) == ("", 1)


def test_tests_that_change_while_they_run(tmp_path: Path) -> None:
    """A test file that another one rewrites and restores during the run is detected."""
    (tmp_path / "calc.py").write_text(
        "import atexit, pathlib\npath = pathlib.Path('test_b.py')\nold = path.read_text()\n"
        "path.write_text('def test_b(): pass\\n')\natexit.register(path.write_text, old)\n"
    )
    (tmp_path / "test_a.py").write_text("import calc\n\ndef test_a(): pass\n")
    (tmp_path / "test_b.py").write_text("def test_b(): assert False\n")
    message = recorded(PYTEST.replace("{paths}", ". {paths}"), ".", tmp_path)
    assert "test files changed while the tests ran" in message["problem"]
