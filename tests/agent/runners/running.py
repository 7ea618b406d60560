"""Runs of tests in a folder, as the agent makes them in a workspace."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.runners import prepare, runner_of
from agent.runners.runner import Run
from agent.workspaces import apart

PYTEST = "python -m pytest -q -rfE -p no:cacheprovider {paths}"
DJANGO = "./tests/runtests.py --verbosity=2 --settings=test_sqlite --parallel=1 {paths}"
SYMPY = "PYTHONWARNINGS=ignore::UserWarning bin/test -C --verbose {paths}"
UNITTEST = "python -m unittest -v {paths}"

ENDINGS_OF_PYTEST = """\
import unittest

import pytest


def test_pass():
    print("=== short test summary info ===")


def test_assert():
    assert [1] == [2]


def test_type():
    len(3)


def test_no_raise():
    with pytest.raises(ValueError):
        pass


def test_fixture(unknown):
    pass


def test_skip():
    pytest.skip("why")


@pytest.mark.xfail
def test_xfail():
    assert False


class TestCase(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(1, 2)

    def test_division(self):
        1 / 0

    def test_pass(self):
        pass

    def test_skipped(self):
        self.skipTest("why")
"""

ENDINGS_OF_UNITTEST = """\
import unittest


class TestEndings(unittest.TestCase):
    def test_pass(self):
        pass

    def test_equal(self):
        self.assertEqual(1, 2)

    def test_division(self):
        1 / 0

    def test_parts(self):
        for number in (0, 1):
            with self.subTest(number=number):
                self.assertEqual(number, 1)

    @unittest.skip("why")
    def test_skip(self):
        pass

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()

    def test_inner(self):
        class Inner(unittest.TestCase):
            def test_fail(self):
                self.fail()

        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(Inner).run(result)
        self.assertEqual(len(result.failures), 1)
"""

ENDINGS_OF_SYMPY = """\
from sympy.utilities.pytest import XFAIL, raises


def test_pass():
    assert True


def test_assert():
    assert 1 == 2


def test_division():
    1 / 0


def test_no_raise():
    raises(ValueError, lambda: 1)


@XFAIL
def test_xfail():
    assert False
"""

BIN_TEST = """\
import argparse
import os
import sys

sys.path.insert(0, os.getcwd())
parser = argparse.ArgumentParser()
parser.add_argument("-C", action="store_true", dest="uncached")
parser.add_argument("--verbose", action="store_true")
parser.add_argument("tests", nargs="*")
options = parser.parse_args()
if options.uncached:
    os.environ["SYMPY_USE_CACHE"] = "no"
import sympy

sys.exit(0 if sympy.test(*options.tests, verbose=options.verbose) else 1)
"""
"""SymPy's source distribution does not include this program. This one has the options used by
rows."""


def recorded(command: str, path: str, folder: Path, programs: Path | None = None) -> dict[str, Any]:
    """Return the exit code, problem and records of a run in the folder."""
    run = prepare(runner_of(command), [path])
    assert run is not None
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder)}
    if programs is not None:
        environment["PATH"] = f"{programs}:{environment['PATH']}"
    done = launch(run, folder, environment)
    _, message = run.open(done.stdout)
    assert message is not None, done.stdout + done.stderr
    return message


def launch(
    run: Run, folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the launcher of a run of tests in a folder."""
    return subprocess.run(
        ["python", *apart.OPTIONS, "-c", run.program],
        cwd=folder,
        env=environment,
        input=f"{run.given}\n",
        capture_output=True,
        text=True,
    )
