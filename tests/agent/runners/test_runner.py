"""Commands of test runners: the programs that they run, and how they name tests."""

import ast
from pathlib import Path

import pytest

import agent.runners
from agent.runners import PYTEST, TestRunner, runner_of
from agent.runners.runner import program_of
from tests.agent.runners.running import DJANGO, SYMPY, UNITTEST

INSIDE = sorted(Path(agent.runners.__file__).parent.glob("inside/*.py"))


@pytest.mark.parametrize(
    ("command", "adapter", "style"),
    [
        ("pytest {paths}", "pytest", "files"),
        ("python -X dev -m pytest -q {paths}", "pytest", "files"),
        ("python3 -m unittest {paths}", "unittest", "modules"),
        (DJANGO, "unittest", "django"),
        (SYMPY, "sympy", "files"),
        ("npx jest {paths}", "jest", "files"),
        ("python run.py {paths}", "summary", "files"),
        ("cd src && pytest {paths}", "summary", "files"),
        ("pytest {paths} | tee log", "summary", "files"),
        ("pytest '{paths}", "summary", "files"),
        ("{paths}", "summary", "files"),
        ("A=1 {paths}", "summary", "files"),
    ],
)
def test_commands_that_can_be_observed(command: str, adapter: str, style: str) -> None:
    """Plain commands of known programs can be observed, but shell scripts cannot."""
    runner = runner_of(command)
    assert (runner.adapter, runner.path_style) == (adapter, style)


def test_the_parts_of_a_command() -> None:
    """A command consists of variables, interpreter options, the program and its arguments."""
    program = program_of("A='b c' python -X dev -m pytest -q {paths}")
    assert program is not None
    assert program.variables == (("A", "b c"),)
    assert program.interpreter_options == ("-X", "dev")
    assert (program.target, program.arguments, program.cwd_on_path) == ("pytest", ("-q",), True)


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("pytest {paths}", ["./-a.py", "tests/x/test_b.py::T::test_c", "tests"]),
        (DJANGO, ["-a", "x.test_b.T.test_c", "tests"]),
        (UNITTEST, ["-a", "tests.x.test_b.T.test_c", "tests"]),
        (SYMPY, ["-a.py", "tests/x/test_b.py", "tests"]),
    ],
)
def test_names_of_tests(command: str, names: list[str]) -> None:
    """Runners take paths, labels or modules. SymPy's runner takes whole files only."""
    assert runner_of(command).names(["-a.py", "tests/x/test_b.py::T::test_c", "tests"]) == names


def test_a_shell_command_quotes_tests_and_sets_variables() -> None:
    """Only `{paths}` is replaced, and the names of tests are quoted for the shell."""
    runner = TestRunner("run ${x} {paths}", environment=(("LANG", "a b"),))
    assert runner.shell_command(["it's.py"]) == "LANG='a b' run ${x} 'it'\"'\"'s.py'"


def test_which_files_a_runner_takes() -> None:
    """A runner accepts only files that can be its tests, not scripts named like tests."""
    assert not runner_of(SYMPY).runs("bin/test_import.py")
    assert runner_of(SYMPY).runs("sympy/core/tests/test_expr.py")
    assert not runner_of(DJANGO).runs("django/test/testcases.py")
    assert PYTEST.runs("anything_test.py")
    assert not PYTEST.runs("frontend/money.test.js")
    assert not runner_of("node --test {paths}").runs("backend/tests/test_price.py")


@pytest.mark.parametrize("path", INSIDE, ids=lambda path: path.stem)
def test_programs_inside_run_on_old_pythons(path: Path) -> None:
    """SWE-bench has images with Python 3.5, so the programs must be valid there."""
    ast.parse(path.read_text(), feature_version=(3, 5))
