"""Paths of tests, and of files that configure or replace test runners."""

import pytest

from agent.runner_settings import is_test_support, shadows_a_module
from agent.testfiles import BY_CONVENTION


@pytest.mark.parametrize(
    "path",
    [
        "test_calc.py",
        "pkg/test_calc.py",
        "pkg/calc_test.py",
        "app/tests.py",
        "src/button.test.tsx",
        "src/button.spec.js",
        "src/button.spec.mjs",
        "internal/reader_test.go",
        "spec/models/user_spec.rb",
        "odd name\nof two lines/test_x.py",
        "odd/test_two\nlines.py",
    ],
)
def test_modules_that_runners_collect(path: str) -> None:
    """Names of tests are those that Python, JavaScript, Go and Ruby runners collect."""
    assert BY_CONVENTION.collects(path)
    assert BY_CONVENTION.owns(path)


@pytest.mark.parametrize(
    "path",
    [
        "tests/helpers.py",
        "astropy/io/ascii/tests/data/simple.dat",
        "src/__tests__/button.js",
        "src/__snapshots__/button.test.js.snap",
        "test/units.js",
        "test/support/client.py",
        "packages/core/test/fixture.json",
        "packages/core/testing/fixture.json",
        "testing/python/fixtures.py",
        "src/test/java/ReaderCase.java",
    ],
)
def test_other_files_in_test_folders(path: str) -> None:
    """Helpers and data in test folders are test files but are not passed to a runner."""
    assert BY_CONVENTION.owns(path)
    assert not BY_CONVENTION.collects(path)


@pytest.mark.parametrize(
    "path",
    [
        "calc.py",
        "testing.py",
        "latest.py",
        "contest.py",
        "pkg/attestation.py",
        "django/test/client.py",
        "numpy/testing/utils.py",
        "src/latest/reader.go",
        "spec.js",
        "src/inspect.ts",
        "test_data.json",
        "docs/tests.md",
        "tests",
        "",
    ],
)
def test_code_that_only_sounds_like_a_test(path: str) -> None:
    """A library about testing, or a name that contains `test`, is not a test."""
    assert not BY_CONVENTION.owns(path)


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "pkg/tests/conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "tox.ini",
        "setup.cfg",
        "pyproject.toml",
        ".coveragerc",
        "noxfile.py",
        "sitecustomize.py",
        "lib/usercustomize.py",
        "early.pth",
        "jest.config.js",
        "jest.setup.ts",
        "vitest.config.mts",
        "vitest.workspace.json",
        "karma.conf.js",
        ".mocharc.yml",
        "bin/test",
        "calc.egg-info/entry_points.txt",
        "src/calc-1.0.dist-info/entry_points.txt",
        "tests/runtests.py",
        "sympy/testing/runtests.py",
    ],
)
def test_files_that_decide_how_tests_run(path: str) -> None:
    """Files that can change a test's result without a change to the test count as test support."""
    assert is_test_support(path)


@pytest.mark.parametrize(
    "path",
    [
        "setup.py",
        "config.py",
        "jester.py",
        "pytest.py",
        "docs/pytest.rst",
        "karma.md",
        "entry_points.txt",
    ],
)
def test_files_that_do_not_decide_how_tests_run(path: str) -> None:
    """Ordinary code and documents are not test support."""
    assert not is_test_support(path)


@pytest.mark.parametrize(
    "path",
    [
        "pytest.py",
        "_pytest/__init__.py",
        "src/pluggy.py",
        "py.py",
        "lib/py/__init__.py",
        "bin/random.py",
        "json.cpython-311-x86_64-linux-gnu.so",
        "unittest.pyc",
        "pytest",
    ],
)
def test_modules_that_shadow_others(path: str) -> None:
    """A module at the root or in a folder that can be on the import path may shadow another one."""
    assert shadows_a_module(path)


@pytest.mark.parametrize(
    "path",
    [
        "calc.py",
        "pkg/json.py",
        "src/pkg/types.py",
        "json/data.txt",
        "pytest.md",
        "html/index.html",
        "src/_pytest/mark/evaluate.py",
        "",
    ],
)
def test_modules_that_shadow_nothing(path: str) -> None:
    """A module inside a package may have any name."""
    assert not shadows_a_module(path)
