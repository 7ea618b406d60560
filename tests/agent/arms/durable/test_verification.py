"""Objections to a change that are derived only from test runs."""

from dataclasses import replace

import pytest

from agent.arms.durable.reproduction import not_reproduced
from agent.arms.durable.state import Anchor, Verification
from agent.arms.durable.verification import passes
from agent.checks import regressions
from agent.tools import TestRun

PATH = "tests/test_anchor.py"
ANCHOR = Anchor(PATH, "", "", (f"{PATH}::test_one", f"{PATH}::test_two"))
CLEAN = TestRun("pytest", 0, [], [], [], "")
BEFORE = replace(CLEAN, passed=["t.py::test_a[1]", "t.py::test_a[2]", "t.py::test_b"])


def test_a_reproduction_test_passes_if_every_failed_test_passes() -> None:
    """Exit code 0 is not enough, because tests can be skipped and runs can be ended early."""
    assert passes(ANCHOR, replace(CLEAN, passed=[*ANCHOR.failed, f"{PATH}::test_three"]))
    assert not passes(ANCHOR, replace(CLEAN, passed=[f"{PATH}::test_one"]))
    assert not passes(ANCHOR, replace(CLEAN, exit_code=1, passed=list(ANCHOR.failed)))
    assert not passes(ANCHOR, replace(CLEAN, passed=list(ANCHOR.failed), problem="cut short"))


def test_the_exit_code_decides_without_test_names() -> None:
    """Without names of tests in the output, the exit code decides."""
    assert passes(replace(ANCHOR, failed=()), CLEAN)


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (BEFORE, []),
        (replace(CLEAN, passed=["t.py::test_a[9]", "t.py::test_b"]), []),
        (
            replace(CLEAN, exit_code=1, passed=["t.py::test_a[1]"], failed=["t.py::test_b"]),
            ["t.py::test_b fails and did not before"],
        ),
        (
            replace(CLEAN, passed=["t.py::test_b"]),
            ["t.py::test_a passed before and is not run any more"],
        ),
        (CLEAN, ["the regression tests end with exit code 0, and with 0 before"]),
        (
            replace(CLEAN, exit_code=124),
            ["the regression tests end with exit code 124, and with 0 before"],
        ),
        (
            replace(CLEAN, exit_code=1),
            ["the regression tests end with exit code 1, and with 0 before"],
        ),
        (
            replace(BEFORE, problem="the code under test changed x"),
            ["the regression tests prove nothing: the code under test changed x"],
        ),
        (
            replace(BEFORE, exit_code=2),
            ["the regression tests end with exit code 2, and with 0 before"],
        ),
    ],
)
def test_regressions(after: TestRun, told: list[str]) -> None:
    """A test that fails or disappears is a regression. Parameters may change with the code."""
    assert regressions(BEFORE, after) == told


def test_an_exit_code_may_stay_the_same_or_become_0() -> None:
    """Without names of tests, an exit code that stays the same or becomes 0 is accepted."""
    failing = replace(CLEAN, exit_code=1)
    assert regressions(failing, failing) == regressions(failing, CLEAN) == []
    assert regressions(failing, replace(CLEAN, exit_code=2)) == [
        "the regression tests end with exit code 2, and with 1 before"
    ]
    assert regressions(None, failing)


def test_a_broken_earlier_run_is_no_baseline() -> None:
    """Tests that were already broken on the base commit may stay broken, but new failures count."""
    broken = replace(CLEAN, exit_code=1, problem="cut short")
    assert regressions(broken, broken) == []
    assert regressions(broken, replace(broken, failed=["t"])) == ["t fails and did not before"]


def test_an_earlier_failure_may_occur_again() -> None:
    """A test that failed before may fail again. Without an earlier run, every failure counts."""
    failing = replace(CLEAN, exit_code=1, failed=["t.py::test_a"])
    assert regressions(failing, failing) == []
    assert regressions(None, failing) == ["t.py::test_a fails and did not before"]


@pytest.mark.parametrize(
    "output",
    [
        "    assert f() == 1\nE       assert 2 == 1\n\ntests/test_anchor.py:3: AssertionError",
        "E       AssertionError: assert 'SyntaxError: x' in 'ImportError'\n",
        "E       Failed: DID NOT RAISE <class 'SyntaxError'>\n",
    ],
)
def test_wrong_behaviour_is_a_reproduction(output: str) -> None:
    """A failed assertion is a reproduction, even in the output of a runner that names no tests."""
    assert not_reproduced(replace(CLEAN, exit_code=1, output=output)) == ""


@pytest.mark.parametrize(
    ("done", "why"),
    [
        (CLEAN, "passes although"),
        (replace(CLEAN, exit_code=2), "by an error"),
        (replace(CLEAN, exit_code=1, output="No module named pytest"), "by an error"),
        (replace(CLEAN, exit_code=1, output="ImproperlyConfigured: settings"), "by an error"),
        (replace(CLEAN, exit_code=5, observed=True), "no test failed"),
        (replace(CLEAN, exit_code=124, problem="timed out"), "proves nothing"),
        (
            replace(CLEAN, exit_code=1, output="E  NameError: x\n\ncalc.py:2: NameError\n"),
            "by an error",
        ),
        (replace(CLEAN, exit_code=1, errors=[PATH]), "by an error"),
        (
            replace(CLEAN, exit_code=1, output="E   ImportError: cannot import name 'x'"),
            "by an error",
        ),
        (replace(CLEAN, exit_code=1, output="E     SyntaxError: invalid syntax"), "by an error"),
    ],
)
def test_runs_that_reproduce_nothing(done: TestRun, why: str) -> None:
    """A test that passes, does not run, or fails by an error of its own reproduces nothing."""
    assert why in not_reproduced(done)


def test_failures_are_shown_briefly() -> None:
    """The error for prompts is short and begins with the failed tests, even for long output."""
    output = f"{'noise ' * 400_000}\n____ test_one ____\nE       assert 1 == 2\n"
    run = replace(CLEAN, exit_code=1, failed=["t.py::test_one"], output=output)
    told = Verification((BEFORE, run), ()).error
    assert told.startswith("FAILED t.py::test_one\n")
    assert len(told) < 11_000
