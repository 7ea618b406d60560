"""The door from a repository to "is this path a test file?".

Repositories state it themselves: pytest's `python_files`, `testpaths` and `norecursedirs`, the
patterns of jest, vitest and mocha. Other languages fix it by name. The configuration is text of
strangers: it is parsed within bounds and never run, and a file that cannot be read leaves the
conventions in force. As in pytest and npm, the nearest configuration around a file decides.

Paths are relative to the repository's root and separate folders with `/`.
"""

import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

import yaml

from agent.globs import MAX_PATTERN, matches, plain_globs

MAX_CHARS = 256 * 2**10
"""A longer configuration is not read."""

MAX_CONFIGURATIONS = 200
"""Folders whose configuration is read, the outermost first."""

_MAX_PATTERNS = 64

_PYTEST_FILES = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
"""In the order in which pytest looks for its section."""

ROOT_FILES = (*_PYTEST_FILES, "package.json")
"""Files that state in a repository's root which files are tests."""

_SCRIPT_FILES = re.compile(
    r"package\.json|(jest|vitest|vite)\.config\.([cm]?[jt]s|json)|\.mocharc\.(c?js|jsonc?|ya?ml)"
)
_SCRIPT_RUNNER = re.compile(r"\b(jest|mocha)\b")

_PYTHON = ("test_*.py", "*_test.py", "test.py", "tests.py")
_NOT_ENTERED = (
    "*.egg",
    ".*",
    "_darcs",
    "build",
    "CVS",
    "dist",
    "node_modules",
    "venv",
    "{arch}",
)
_SCRIPTS = ("**/*.{test,spec,cy}.?(c|m)[jt]s?(x)",)
_OF_RUNNERS = {
    "jest": (*_SCRIPTS, "**/__tests__/**/*.?(c|m)[jt]s?(x)"),
    "mocha": (*_SCRIPTS, "test/*.{js,cjs,mjs}"),
}

_NAMED = re.compile(
    r"test_.*\.pyi|.*_test\.(pyi|go|rb|c|cc|cpp|rs|dart|exs)|.*_spec\.rb|.*Test\.php"
    r"|(Test.*|.*(Test|Tests|TestCase|IT))\.(java|kt|groovy|scala)|.*Tests?\.(cs|swift)",
    re.DOTALL,
)
_RUST_TEST = re.compile(r"(.*/)?tests/([^/]+|[^/]+/main)\.rs")

_TEST_FOLDERS = {"tests", "__tests__", "__mocks__", "__snapshots__", "e2e"}
_TEST_OR_LIBRARY_FOLDERS = {"test", "testing"}

_LITERAL = re.compile(r"""(["'`])((?:(?!\1)[^\\\n])*)\1""")
_LIST_IN_CODE = re.compile(
    r"""\b(?:testMatch|include|spec)["']?\s*:\s*(\[[^\]]{0,4000}\]|["'`][^"'`\n]{0,200}["'`])"""
)


@dataclass(frozen=True)
class _Python:
    """What pytest collects below a folder."""

    files: tuple[str, ...] = _PYTHON
    inside: tuple[str, ...] = ()
    """Folders or files where it begins; none for everywhere."""
    not_entered: tuple[str, ...] = _NOT_ENTERED


class TestFiles:
    """The answer for one repository."""

    __test__ = False  # not a test class, despite its name

    def __init__(
        self,
        python: Mapping[str, _Python] | None = None,
        scripts: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Use `read_test_files`. Without arguments, conventions decide.

        `python` and `scripts` are by the folder of the configuration, '' for the root.
        """
        self._python = python or {}
        self._scripts = {folder: plain_globs(found) for folder, found in (scripts or {}).items()}
        self._collected: dict[str, bool] = {}

    def collects(self, path: str) -> bool:
        """Return True if a test runner would collect tests from a file of this path."""
        if path not in self._collected:
            self._collected[path] = self._collects(path)
        return self._collected[path]

    def owns(self, path: str) -> bool:
        """Return True if a file belongs to a test suite: collected, or in a test folder.

        Helpers and data in such a folder count, since tests depend on them. A folder `test` or
        `testing` counts at the top level. Elsewhere it counts for all files but Python's, because
        `package.test` is more often a library than a suite (`django.test`, `numpy.testing`).
        """
        pure = PurePosixPath(path)
        folders = pure.parts[:-1]
        either = not _TEST_OR_LIBRARY_FOLDERS.isdisjoint(folders)
        return (
            self.collects(path)
            or not _TEST_FOLDERS.isdisjoint(folders)
            or (either and folders[0] in _TEST_OR_LIBRARY_FOLDERS)
            or (either and pure.suffix not in (".py", ".pyi"))
        )

    def _collects(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        if name.endswith(".py"):
            folder, rules = _nearest(self._python, path, _Python())
            return name != "conftest.py" and _is_collected(rules, _below(folder, path))
        if re.search(r"\.[cm]?[jt]sx?$", name):
            folder, patterns = _nearest(self._scripts, path, _PLAIN_SCRIPTS)
            return any(matches(_below(folder, path), pattern) for pattern in patterns)
        return _NAMED.fullmatch(name) is not None or _RUST_TEST.fullmatch(path) is not None


def read_test_files(paths: Collection[str], text: Callable[[str], str]) -> TestFiles:
    """Return which files of a repository are tests. `text` returns the text of a file."""
    python: dict[str, _Python] = {}
    scripts: dict[str, tuple[str, ...]] = {}
    for folder, names in _find_configurations(paths):
        inside = f"{folder}/" if folder else ""
        read = ((name, text(f"{inside}{name}")) for name in names)
        found = [(name, content) for name, content in read if len(content) <= MAX_CHARS]
        if (settings := _pytest_settings(dict(found))) is not None:
            python[folder] = _drop_absent_testpaths(_python(settings), folder, paths)
        if patterns := _script_patterns(found):
            scripts[folder] = patterns
    return TestFiles(python, scripts)


def _find_configurations(paths: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return the folders with configuration of test runners and its names, outermost first."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        known = name in _PYTEST_FILES or _SCRIPT_FILES.fullmatch(name)
        if known and "node_modules" not in folder.split("/"):
            folders.setdefault(folder, []).append(name)
    ordered = sorted(folders.items(), key=lambda each: (each[0].count("/") + bool(each[0]), each))
    return ordered[:MAX_CONFIGURATIONS]


def _nearest(rules: Mapping[str, Any], path: str, otherwise: Any) -> tuple[str, Any]:
    """Return the innermost folder around a file that has rules, and its rules."""
    folder = path
    while folder and rules:
        folder = folder.rpartition("/")[0]
        if folder in rules:
            return folder, rules[folder]
    return "", otherwise


def _below(folder: str, path: str) -> str:
    return path[len(folder) + 1 :] if folder else path


# pytest


def _pytest_settings(files: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return pytest's settings of a folder, as pytest finds them, or None if it has none."""
    for name in _PYTEST_FILES:
        if name not in files:
            continue
        settings = _of_toml(files[name]) if name.endswith("toml") else _of_ini(files[name], name)
        if settings is not None:
            return settings
        if name in ("pytest.ini", ".pytest.ini"):  # count even when empty
            return {}
    return None


def _of_toml(text: str) -> Mapping[str, Any] | None:
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    tool = document.get("tool")
    own = tool.get("pytest") if isinstance(tool, dict) else document.get("pytest")
    if not isinstance(own, dict):
        return None
    options = own.get("ini_options", own)
    return options if isinstance(options, dict) else None


def _of_ini(text: str, name: str) -> Mapping[str, Any] | None:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, default_section="")
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    section = "tool:pytest" if name == "setup.cfg" else "pytest"
    return dict(parser[section]) if parser.has_section(section) else None


def _python(settings: Mapping[str, Any]) -> _Python:
    return _Python(
        _words(settings.get("python_files")) or _PYTHON,
        tuple(each.strip("/") for each in _words(settings.get("testpaths"))),
        _words(settings.get("norecursedirs")) or _NOT_ENTERED,
    )


def _drop_absent_testpaths(rules: _Python, folder: str, paths: Iterable[str]) -> _Python:
    """Return the rules without `testpaths` if nothing is there, as pytest then looks everywhere."""
    inside = f"{folder}/" if folder else ""
    mine = (_below(folder, path) for path in paths if path.startswith(inside))
    if any(_is_collected(rules, path) for path in mine if path.endswith(".py")):
        return rules
    return _Python(rules.files, (), rules.not_entered)


def _is_collected(rules: _Python, path: str) -> bool:
    """Return True if pytest collects a Python file below the folder of its configuration."""
    if not any(_pytest_match(path, pattern) for pattern in rules.files):
        return False
    outer = list(_outer(path))
    if not rules.inside:
        entered = outer
    else:
        begins = [
            len(around)
            for around in (*outer, path)
            if any(each in ("", ".") or _glob_match(around, each) for each in rules.inside)
        ]
        if any(each in ("", ".") for each in rules.inside):
            begins.append(0)
        if not begins:
            return False
        entered = [each for each in outer if len(each) > min(begins)]
    return not any(
        _pytest_match(each, pattern) for each in entered for pattern in rules.not_entered
    )


def _outer(path: str) -> Iterator[str]:
    """Yield the folders around a file, the outermost first."""
    parts = path.split("/")[:-1]
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])


def _pytest_match(path: str, pattern: str) -> bool:
    """Return True if pytest's `fnmatch_ex` matches a pattern with a file or folder."""
    if "/" not in pattern:
        return fnmatchcase(path.rpartition("/")[2], pattern)
    return fnmatchcase(f"/{path}", f"*/{pattern.removeprefix('./')}")


def _glob_match(path: str, pattern: str) -> bool:
    return matches(path, tuple(pattern.removeprefix("./").split("/")))


def _words(value: Any) -> tuple[str, ...]:
    """Return the patterns of an option: a list, or words of one text."""
    if isinstance(value, str):
        try:
            value = shlex.split(value, comments=True)
        except ValueError:  # a quote is left open
            return ()
    texts = [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
    return tuple(each for each in texts[:_MAX_PATTERNS] if 0 < len(each) <= MAX_PATTERN)


# jest, vitest and mocha


def _script_patterns(files: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the patterns of JavaScript's runners in a folder, () if its files state none."""
    stated: list[str] = []
    runners: list[str] = []
    is_package = False
    for name, text in files:
        if name == "package.json":
            package = _json(text)
            is_package = True
            for runner, option in (("jest", "testMatch"), ("mocha", "spec")):
                own = package.get(runner)
                stated += _words_of(own.get(option)) if isinstance(own, dict) else []
            named = f"{package.get('scripts')} {package.get('devDependencies')}"
            runners += _SCRIPT_RUNNER.findall(named[:MAX_CHARS])
        elif name.endswith((".json", ".jsonc", ".yml", ".yaml")):
            own = _json(text) if ".json" in name else _yaml(text)
            stated += _words_of(own.get("testMatch")) + _words_of(own.get("spec"))
        elif _SCRIPT_FILES.fullmatch(name):
            stated += _in_code(text)
            runners += _SCRIPT_RUNNER.findall(name)
    patterns = [each.removeprefix("<rootDir>/").removeprefix("./") for each in stated]
    if patterns or not is_package:
        return tuple(patterns[:_MAX_PATTERNS])
    known = [pattern for runner in dict.fromkeys(runners) for pattern in _OF_RUNNERS[runner]]
    return tuple(dict.fromkeys(known)) or _SCRIPTS


def _in_code(text: str) -> list[str]:
    """Return the literal patterns of a configuration that is code. It is searched, never run."""
    lists = (found[1] for found in _LIST_IN_CODE.finditer(text))
    literals = (literal[2] for found in lists for literal in _LITERAL.finditer(found))
    return [each for each in literals if "*" in each and len(each) <= MAX_PATTERN]


def _words_of(value: Any) -> list[str]:
    """Return the patterns of a JSON value: one text, or a list of texts."""
    values = value if isinstance(value, list) else [value]
    return [each for each in values[:_MAX_PATTERNS] if isinstance(each, str)][:_MAX_PATTERNS]


def _json(text: str) -> dict[str, Any]:
    return _mapping(json.loads, text)


def _yaml(text: str) -> dict[str, Any]:
    return _mapping(yaml.safe_load, text)


def _mapping(parse: Callable[[str], Any], text: str) -> dict[str, Any]:
    try:
        found = parse(text)
    except (ValueError, RecursionError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


_PLAIN_SCRIPTS = plain_globs(_SCRIPTS)

BY_CONVENTION = TestFiles()
"""The answer where the repository's configuration is not at hand."""
