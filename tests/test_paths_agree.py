"""The agent and the audit classify the same files as tests, except for the differences listed here.

The two packages may not import each other. `agent.runner_settings` decides what an agent may not
edit, and `eval.patches` which changes make a verdict suspect.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from agent.runner_settings import differ, has_settings, is_test_support
from agent.testfiles import BY_CONVENTION
from eval import instances, patches
from eval.audit import audit
from eval.patches import is_test, is_test_configuration
from eval.types import Applied, FileChange
from tests.eval.trees import graded

Classify = Callable[[str], bool]


@dataclass(frozen=True)
class Difference:
    """Paths that only one of the two packages counts as tests or their configuration."""

    pattern: str
    """A regular expression that matches the whole path."""
    agent: bool
    """The answer of `agent.runner_settings`; the audit's is the opposite."""
    reason: str
    examples: tuple[str, ...]


TESTS = (
    Difference(
        r".+/(test|testing)/.*(?<!_test)\.pyi?",
        False,
        "a package may have a library for tests, which an agent may have to repair; SWE-bench "
        "counts it with the tests, so the audit shows a change of it",
        ("django/test/testcases.py", "numpy/testing/utils.py", "sphinx/testing/util.pyi"),
    ),
    Difference(
        r"(.*/)?(tests?[_.].*|.*_tests?\.\w+)",
        False,
        "no test runner collects a file of this name; it is more often data or a document, which "
        "an agent may edit, while the audit shows each change that could be one of a test",
        ("test_data.json", "docs/tests.md", "pkg/tests_of_units.py", "unit_tests.py", "a_test.sh"),
    ),
    Difference(
        r"(.*/)?\w[\w.]*\.(test|spec)\.(?![cm]?[jt]sx?$)\w+",
        False,
        "as above, for the names of JavaScript's tests",
        ("button.test.css", "src/api.spec.json"),
    ),
    Difference(
        r"(.*/)?(__mocks__/.*|.*_spec\.rb|.*\.cy\.[cm]?[jt]sx?)",
        True,
        "SWE-bench's tests have no such names; to count them, the audit would need a new "
        "procedure, with which every resolved patch is graded again",
        ("__mocks__/fs.js", "spec/models/user_spec.rb", "login.cy.ts"),
    ),
)

CONFIGURATION = (
    Difference(
        r"(.*/)?\.?(jest|vitest|karma|mocharc|playwright|cypress)(\.[\w-]+)*",
        False,
        "the audit shows every file named after a JavaScript runner; an agent may edit documents "
        "and formats that the runner does not read",
        ("docs/karma.md", "jest.config.rst", "cypress", ".playwright.ts"),
    ),
    Difference(
        r"(.*/)?[^/]+\.(egg|dist)-info/entry_points\.txt",
        True,
        "metadata of an installation is in no diff of a real repository; an agent may not write "
        "it, since pytest finds plugins there",
        ("pkg.egg-info/entry_points.txt", "src/pkg-1.0.dist-info/entry_points.txt"),
    ),
)

ALIKE = (
    "",
    "bin/test",
    "bin/test_import.py",
    "runtests.py",
    "tests/runtests.py",
    "calc.py",
    "conftest.py",
    "contest.py",
    "e2e/login.js",
    "jest.config.js",
    ".mocharc.yml",
    "latest.py",
    "lib/early.pth",
    "odd/test_two\nlines.py",
    "package/src/__tests__/button.js",
    "packages/core/test/fixture.json",
    "packages/core/testing/fixture.json",
    "pkg/calc_test.py",
    "pkg/tests/conftest.py",
    "pkg/tests/data/simple.dat",
    "pyproject.toml",
    "setup.py",
    "spec.js",
    "src/__snapshots__/button.snap",
    "src/button.spec.mjs",
    "src/test/java/ReaderCase.java",
    "src/testing.py",
    "test",
    "test/support/client.py",
    "testing",
    "testing/conftest.py",
    "testing/python/fixtures.py",
    "tests",
    "tests.py",
    "tests/helpers.py",
    "tests.pyc/readme",
    "tox.ini",
    "usercustomize.py",
)
"""Corner cases on which both packages agree."""

KINDS = pytest.mark.parametrize(
    ("agent", "audit", "differences"),
    [
        pytest.param(BY_CONVENTION.owns, is_test, TESTS, id="tests"),
        pytest.param(is_test_support, is_test_configuration, CONFIGURATION, id="configuration"),
    ],
)


@pytest.fixture(scope="module")
def rows(shared_data: Path) -> list[dict[str, str]]:
    """Return the reference patch and the test patch of every real row."""
    files = sorted((shared_data / "swebench").glob("*.parquet"))
    columns = ["patch", "test_patch"]
    found = [row for file in files for row in pq.read_table(file, columns=columns).to_pylist()]
    assert len(found) > 500
    return found


def paths(rows: list[dict[str, str]], column: str) -> set[str]:
    """Return every path that the patches of a column touch."""
    return {path for row in rows for change in patches.read(row[column]) for path in change.paths}


def unexplained(
    paths: set[str], agent: Classify, audit: Classify, differences: tuple[Difference, ...]
) -> list[str]:
    """Return the paths on which both packages disagree and that no listed difference covers."""
    return [
        path
        for path in sorted(paths)
        if agent(path) != audit(path)
        and not any(
            agent(path) is one.agent and re.fullmatch(one.pattern, path, re.DOTALL)
            for one in differences
        )
    ]


@KINDS
def test_corner_cases(
    agent: Classify, audit: Classify, differences: tuple[Difference, ...]
) -> None:
    """Both packages classify corner cases alike, except the examples of the listed differences."""
    assert [path for path in ALIKE if agent(path) != audit(path)] == []
    examples = {path for one in differences for path in one.examples}
    assert unexplained(examples, agent, audit, differences) == []


@KINDS
def test_every_named_difference_exists(
    agent: Classify, audit: Classify, differences: tuple[Difference, ...]
) -> None:
    """The packages disagree on every example of a listed difference."""
    for one in differences:
        for path in one.examples:
            assert re.fullmatch(one.pattern, path), path
            assert (agent(path), audit(path)) == (one.agent, not one.agent), path


@KINDS
def test_real_rows(
    agent: Classify,
    audit: Classify,
    differences: tuple[Difference, ...],
    rows: list[dict[str, str]],
) -> None:
    """Except for the listed differences, both packages classify every real path alike."""
    touched = paths(rows, "patch") | paths(rows, "test_patch")
    assert unexplained(touched, agent, audit, differences) == []


def test_an_agent_may_edit_what_a_repair_edits(rows: list[dict[str, str]]) -> None:
    """Neither package counts a path of a reference patch as a test."""
    for path in paths(rows, "patch"):
        assert not BY_CONVENTION.owns(path), path
        assert not is_test(path), path


def test_the_audit_counts_every_file_of_a_test_patch(rows: list[dict[str, str]]) -> None:
    """The audit counts every path of a SWE-bench test patch as a test."""
    assert [path for path in paths(rows, "test_patch") if not is_test(path)] == []


INI = """\
[metadata]
name = x
[options]
install_requires =
    astroid
[tool:pytest]
addopts = -q
"""
TOML = '[project]\nname = "x"\n[tool.pytest.ini_options]\naddopts = "-q"\n'
JSON = '{"name": "x", "scripts": {"test": "jest"}, "dependencies": {}}\n'
OTHER = {
    "a dependency of pylint-4661": ("setup.cfg", INI, INI.replace("astroid", "appdirs>=1.4")),
    "a section": ("tox.ini", INI, INI + "[flake8]\nignore = E1\n"),
    "a name": ("pyproject.toml", TOML, TOML.replace('"x"', '"y"')),
    "a new file": ("pkg/setup.cfg", "", "[metadata]\nname = x\n"),
    "a version": ("package.json", JSON, JSON.replace('"x"', '"x", "version": "1"')),
}
"""Changes of other settings: path, content before and content after."""

OF_RUNNERS = {
    "options": ("setup.cfg", INI, INI.replace("-q", "-k none")),
    "no section": ("setup.cfg", INI, INI.partition("[tool")[0]),
    "a new section": ("tox.ini", "[flake8]\na = 1\n", "[flake8]\na = 1\n[pytest]\nb = 1\n"),
    "a hidden section": ("tox.ini", "[x]\na = 1\n", "[x]\na = 1\f[pytest]\faddopts = --co\n"),
    "an alias": ("setup.cfg", INI, INI + "[aliases]\ntest = build\n"),
    "a plugin": ("setup.cfg", INI, INI + "[options.entry_points]\npytest11 =\n  a = b\n"),
    "a table": ("pyproject.toml", TOML, TOML.replace("-q", "--co")),
    "a plugin's table": (
        "pyproject.toml", TOML, TOML + "[project.entry-points.pytest11]\na = 'b'\n",
    ),
    "coverage": ("pyproject.toml", TOML, TOML + "[tool.coverage.run]\nplugins = ['x']\n"),
    "a script": ("package.json", JSON, JSON.replace('"jest"', '"true"')),
    "a runner": ("package.json", JSON, JSON.replace("{}", '{}, "jest": {"bail": 1}')),
    "broken before": ("setup.cfg", "[x\na = 1\n", "[x]\na = 1\n"),
    "broken now": ("package.json", JSON, JSON + "}\n"),
    "twice": ("setup.cfg", INI, INI + "[metadata]\nname = y\n"),
    "a list": ("package.json", JSON, "[]\n"),
    "another file": ("conftest.py", "a = 1\n", "a = 2\n"),
}  # fmt: skip


@pytest.mark.parametrize("counts", [False, True], ids=["other settings", "settings of runners"])
def test_both_look_at_the_same_settings(counts: bool) -> None:
    """A file with other settings too may be changed in these, and only in these. A link in its
    place, and its removal, change the settings."""
    for name, (path, before, now) in (OF_RUNNERS if counts else OTHER).items():
        old, new = before.encode(), now.encode()
        assert differ(path, old, new) == counts, name
        assert is_suspect(FileChange(path, old if before else None, new)) == counts, name
        assert is_suspect(FileChange(path, old, new, is_link=True)), name
        assert is_suspect(FileChange(path, old, None)), name


def is_suspect(change: FileChange) -> bool:
    """Return True if the audit has a reason against this change alone."""
    evaluation = graded(Applied((change,)))
    return audit(instances.load("bundled")[0], evaluation, differ).reasons != ()


def test_files_with_settings_are_configuration() -> None:
    """Both packages count each file that can hold settings of runners as test configuration."""
    for name in ("setup.cfg", "tox.ini", "pyproject.toml", "package.json"):
        assert has_settings(name)
        assert is_test_support(name)
        assert is_test_configuration(name)


def test_the_reference_patches_change_no_setting_of_a_runner(
    rows: list[dict[str, str]],
) -> None:
    """Of the reference patches of real rows, the ones that touch such a file are few and known."""
    touched = {path for path in paths(rows, "patch") if is_test_configuration(path)}
    assert touched <= {"setup.cfg"}
