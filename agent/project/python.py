"""Detection of Python projects: pytest, unittest, Django and tox."""

import ast
import configparser
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from agent.project.suites import Files, Parts, Suite
from agent.testfiles import read_test_files

_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "tox.ini", "manage.py")
_EXTRAS = ("test", "tests", "testing", "dev", "all")
_REQUIREMENTS = (
    "requirements.txt",
    "requirements-dev.txt",
    "requirements-test.txt",
    "requirements_dev.txt",
    "requirements_test.txt",
    "dev-requirements.txt",
    "test-requirements.txt",
    "requirements/dev.txt",
    "requirements/test.txt",
    "requirements/tests.txt",
)
_PYTEST = re.compile(r"^\s*[\"']?pytest\b", re.MULTILINE | re.IGNORECASE)
_IMPORTS_PYTEST = re.compile(r"^\s*(import|from) pytest\b", re.MULTILINE)
_IMPORTS_UNITTEST = re.compile(r"^\s*(import|from) unittest\b", re.MULTILINE)
_BARE_TEST = re.compile(r"^(async )?def test_\w*\(", re.MULTILINE)
_READ_TESTS = 50
"""Test files that are searched for the library that they use."""

_PIP = "python -m pip install"
_NEWER_PIP = f"{_PIP} --upgrade 'pip>=25.1' && "
"""The first pip that knows dependency groups is newer than the one of Python 3.12 and before."""

_LOCKED_FILE = '-r "${TMPDIR:-/tmp}/locked.txt"'
_LOCKED = f"{_PIP} uv && uv export -q --frozen --no-hashes %s -o {_LOCKED_FILE[3:]} && "
"""Exports the releases that a lock file of uv names. Newer ones may break the tests."""

PYTEST = Suite("pytest", "python -m pytest -q -rfE -p no:cacheprovider", "observed")
UNITTEST = Suite("unittest", "python -m unittest -v", "observed")
DJANGO_ITSELF = Suite("Django's runtests.py", "python tests/runtests.py", "observed")
DJANGO = Suite("Django", "python manage.py test -v 2 --noinput", "unittest text")
TOX = Suite("tox", "tox -q --skip-missing-interpreters true", "exit code")


def python(files: Files) -> Parts | None:
    """Return the parts of a Python project, or None if the files show none."""
    marks = [name for name in _MARKS if name in files.paths]
    collects = read_test_files(files.paths, files.text).collects
    tests = [path for path in sorted(files.paths) if path.endswith(".py") and collects(path)]
    if not marks and not any(path.endswith(".py") for path in files.paths):
        return None
    suite, why = _suite(files, tests)
    return Parts(
        install=_install(files, suite),
        build=None,
        tests=suite,
        lint=tuple(_lint(files)),
        why=[*marks, *([why] if why else [])],
        suffixes=(".py",),
    )


def _suite(files: Files, tests: list[str]) -> tuple[Suite | None, str]:
    """Return the test command, and the evidence for it."""
    if "tests/runtests.py" in files.paths and "django/__init__.py" in files.paths:
        return DJANGO_ITSELF, "tests/runtests.py"
    if "manage.py" in files.paths and "django" in files.text("manage.py"):
        return DJANGO, "manage.py of Django"
    if why := _pytest_evidence(files, tests):
        return PYTEST, why
    if why := _first(files, tests, _IMPORTS_UNITTEST):
        return UNITTEST, f"{why} imports unittest"
    if "tox.ini" in files.paths and "[testenv" in files.text("tox.ini"):
        return TOX, "tox.ini"
    return None, ""


def _pytest_evidence(files: Files, tests: list[str]) -> str:
    """Return the reason to run pytest, or ''."""
    if "pytest" in _table(_toml(files, "pyproject.toml").get("tool")):
        return "[tool.pytest] in pyproject.toml"
    for name in ("pytest.ini", ".pytest.ini", "pytest.toml", "conftest.py", "tests/conftest.py"):
        if name in files.paths:
            return name
    if "tool:pytest" in _ini(files, "setup.cfg"):
        return "[tool:pytest] in setup.cfg"
    tox = _ini(files, "tox.ini")
    if "pytest" in tox or any(
        re.search(r"\bpytest\b", tox[name].get("commands", "")) for name in tox.sections()
    ):
        return "pytest in tox.ini"
    if not tests:
        return ""
    for name in (*_REQUIREMENTS, "pyproject.toml", "setup.cfg"):
        if _PYTEST.search(files.text(name)):
            return f"pytest in {name}"
    if why := _first(files, tests, _IMPORTS_PYTEST):
        return f"{why} imports pytest"
    if why := _first(files, tests, _BARE_TEST):
        return f"{why} has test functions"
    return ""


def _first(files: Files, tests: list[str], pattern: re.Pattern[str]) -> str:
    paths = (path for path in tests[:_READ_TESTS] if pattern.search(files.text(path)))
    return next(paths, "")


def _install(files: Files, suite: Suite | None) -> str | None:
    """Return the command that installs the project and the requirements of its tests.

    The test program is named too, because many projects expect it to be there.
    """
    programs = [program for program in ("pytest", "tox") if suite and suite.name == program]
    document = _toml(files, "pyproject.toml")
    extras = _of_tests(_extras(files, document))
    groups = [f"--group {name}" for name in _of_tests(document.get("dependency-groups"))]
    if "uv.lock" in files.paths:
        options = " ".join([*(f"--extra {name}" for name in extras), *groups])
        return f"{_LOCKED % options}{' '.join([_PIP, _LOCKED_FILE, *programs])}"
    needed = [f"-r {name}" for name in _REQUIREMENTS if name in files.paths]
    is_package = "setup.py" in files.paths or "build-system" in document or "project" in document
    if is_package:
        needed += [f"-e '.[{','.join(extras)}]'" if extras else "-e .", *groups]
    needed += programs
    if not needed:
        return None
    has_groups = any(group in needed for group in groups)
    return f"{_NEWER_PIP if has_groups else ''}{_PIP} {' '.join(needed)}"


def _extras(files: Files, document: dict[str, Any]) -> dict[str, Any]:
    """Return the declared extras, keyed by name."""
    setup, section = _ini(files, "setup.cfg"), "options.extras_require"
    named = setup.items(section) if setup.has_section(section) else []
    declared = _table(_table(document.get("project")).get("optional-dependencies"))
    return declared or dict(named) or _extras_of_setup(files)


def _extras_of_setup(files: Files) -> dict[str, None]:
    """Return the names of the extras that setup.py declares in a dictionary, without running it."""
    if "setup.py" not in files.paths:
        return {}
    try:
        tree = ast.parse(files.text("setup.py"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    declared = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "extras_require"
    )
    keys = (key for value in declared if isinstance(value, ast.Dict) for key in value.keys)
    return {str(key.value): None for key in keys if isinstance(key, ast.Constant)}


def _of_tests(table: Any) -> list[str]:
    """Return the names of extras or groups that tests need, two at most."""
    return [name for name in _EXTRAS if name in _table(table)][:2]


def _lint(files: Files) -> Iterator[str]:
    tools = _table(_toml(files, "pyproject.toml").get("tool"))
    if "ruff" in tools or {"ruff.toml", ".ruff.toml"} & files.paths:
        yield "ruff check --no-fix --output-format concise ."
    ini = {name: _ini(files, name) for name in ("setup.cfg", "tox.ini")}
    if ".flake8" in files.paths or any("flake8" in settings for settings in ini.values()):
        yield "flake8 ."
    has_mypy = "mypy" in tools or {"mypy.ini", ".mypy.ini"} & files.paths
    if has_mypy or "mypy" in ini["setup.cfg"]:
        files_of_settings = (ini["setup.cfg"], _ini(files, "mypy.ini"))
        settings = [
            _table(tools.get("mypy")),
            *(sections["mypy"] for sections in files_of_settings if "mypy" in sections),
        ]
        targets = ("files", "packages", "modules")
        yield "mypy" if any(name in table for table in settings for name in targets) else "mypy ."


def _toml(files: Files, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(files.text(name))
    except tomllib.TOMLDecodeError:
        return {}


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _ini(files: Files, name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    try:
        parser.read_string(files.text(name))
    except configparser.Error:
        parser.clear()
    return parser
