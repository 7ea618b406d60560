"""Paths of tests, and of files that configure or replace test runners."""

from agent.runner_settings import is_test_support, shadows_a_module
from agent.testfiles import BY_CONVENTION

COLLECTED = """
    test_calc.py pkg/test_calc.py pkg/calc_test.py app/tests.py src/button.test.tsx
    src/button.spec.js src/button.spec.mjs internal/reader_test.go spec/models/user_spec.rb
"""
ODD = ["odd name\nof two lines/test_x.py", "odd/test_two\nlines.py"]
IN_FOLDERS = """
    tests/helpers.py astropy/io/ascii/tests/data/simple.dat src/__tests__/button.js
    src/__snapshots__/button.test.js.snap test/units.js test/support/client.py
    packages/core/test/fixture.json packages/core/testing/fixture.json
    testing/python/fixtures.py src/test/java/ReaderCase.java
"""
NO_TESTS = """
    calc.py testing.py latest.py contest.py pkg/attestation.py django/test/client.py
    numpy/testing/utils.py src/latest/reader.go spec.js src/inspect.ts test_data.json
    docs/tests.md tests
"""
SUPPORT = """
    conftest.py pkg/tests/conftest.py pytest.ini .pytest.ini tox.ini setup.cfg pyproject.toml
    .coveragerc noxfile.py sitecustomize.py lib/usercustomize.py early.pth jest.config.js
    jest.setup.ts vitest.config.mts vitest.workspace.json karma.conf.js .mocharc.yml bin/test
    calc.egg-info/entry_points.txt src/calc-1.0.dist-info/entry_points.txt tests/runtests.py
    sympy/testing/runtests.py
"""
NO_SUPPORT = "setup.py config.py jester.py pytest.py docs/pytest.rst karma.md entry_points.txt"
SHADOWS = """
    pytest.py _pytest/__init__.py src/pluggy.py py.py lib/py/__init__.py bin/random.py
    json.cpython-311-x86_64-linux-gnu.so unittest.pyc pytest
"""
NO_SHADOWS = """
    calc.py pkg/json.py src/pkg/types.py json/data.txt pytest.md html/index.html
    src/_pytest/mark/evaluate.py
"""


def test_paths_of_tests() -> None:
    """Runners collect some files of test folders. A name that contains `test` is not enough."""
    collected = [*COLLECTED.split(), *ODD]
    owned = [*collected, *IN_FOLDERS.split()]
    assert list(filter(BY_CONVENTION.owns, [*owned, *NO_TESTS.split(), ""])) == owned
    assert list(filter(BY_CONVENTION.collects, owned)) == collected


def test_files_that_decide_how_tests_run() -> None:
    """Files that can change a test's result without a change to the test count as test support."""
    support = SUPPORT.split()
    assert list(filter(is_test_support, [*support, *NO_SUPPORT.split()])) == support


def test_modules_that_shadow_others() -> None:
    """A module at the root or in a folder that can be on the import path may shadow another one."""
    shadows = SHADOWS.split()
    assert list(filter(shadows_a_module, [*shadows, *NO_SHADOWS.split(), ""])) == shadows
