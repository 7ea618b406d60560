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
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

import yaml

MAX_PATTERN = 200
"""Characters of a pattern; a longer one matches nothing."""

_MAX_ALTERNATIVES = 128


def plain_globs(patterns: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return globs as lists of folders, with every alternative separately."""
    plain = (glob for pattern in patterns for glob in _list_alternatives(pattern))
    return tuple(dict.fromkeys(tuple(glob.split("/")) for glob in plain))


def _list_alternatives(pattern: str) -> list[str]:
    """Expand the alternatives of a glob. Return none if there are too many.

    `{a,b}` and `@(a|b)` mean one of the parts, `?(a|b)` and `*(a|b)` also nothing, `+(a|b)` one.
    """
    done: list[str] = []
    waiting = [pattern] if len(pattern) <= MAX_PATTERN else []
    while waiting:
        if len(done) + len(waiting) > _MAX_ALTERNATIVES:
            return []
        glob = waiting.pop()
        group = _INNERMOST.search(glob)
        if group is None:
            done.append(glob)
            continue
        braces, kind, inside = group[1], group[2], group[3]
        parts = braces.split(",") if braces is not None else inside.split("|")
        if kind in ("?", "*"):
            parts.append("")
        waiting += [f"{glob[: group.start()]}{part}{glob[group.end() :]}" for part in parts]
    return done


_INNERMOST = re.compile(r"\{([^{}()]*)\}|([?*+@])\(([^{}()]*)\)")


def matches(path: str, pattern: tuple[str, ...]) -> bool:
    """Return True if a glob matches a path as a whole; `**` stands for any number of folders.

    A stranger wrote it, so `**` is followed without a try of every way to match it.
    """
    reached = {0}
    for part in path.split("/"):
        reached = _skip_double_stars(reached, pattern)
        following = set()
        for place in reached:
            if place == len(pattern):
                continue
            if pattern[place] == "**":
                following.add(place)
            elif fnmatchcase(part, pattern[place]):
                following.add(place + 1)
        reached = following
    return len(pattern) in _skip_double_stars(reached, pattern)


def _skip_double_stars(places: set[int], pattern: tuple[str, ...]) -> set[int]:
    """Return the places with those behind a `**`, which can stand for nothing."""
    reached = set(places)
    for place in places:
        while place < len(pattern) and pattern[place] == "**":
            place += 1
            reached.add(place)
    return reached


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
_SCRIPT_RUNNER = re.compile(r"\b(jest|mocha|node(?= [^&|;]*--test\b))\b")

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
    "node": (
        "**/*{.,-,_}test.?(c|m)[jt]s",
        "**/test-*.?(c|m)[jt]s",
        "**/test.?(c|m)[jt]s",
        "**/test/**/*.?(c|m)[jt]s",
    ),
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
    """Pytest's rules for the files below a folder."""

    files: tuple[str, ...] = _PYTHON
    inside: tuple[str, ...] = ()
    """Folders or files where it starts; none for everywhere."""
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
        self._scripts = {folder: plain_globs(globs) for folder, globs in (scripts or {}).items()}
        self._collected: dict[str, bool] = {}

    def collects(self, path: str) -> bool:
        """Return True if a test runner would collect tests from a file of this path."""
        if path not in self._collected:
            name = path.rpartition("/")[2]
            if name.endswith(".py"):
                folder, rules = _nearest(self._python, path, _Python())
                is_test = name != "conftest.py" and _is_collected(rules, _below(folder, path))
            elif re.search(r"\.[cm]?[jt]sx?$", name):
                folder, globs = _nearest(self._scripts, path, _PLAIN_SCRIPTS)
                is_test = any(matches(_below(folder, path), glob) for glob in globs)
            else:
                is_test = bool(_NAMED.fullmatch(name) or _RUST_TEST.fullmatch(path))
            self._collected[path] = is_test
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


def read_test_files(paths: Collection[str], text: Callable[[str], str]) -> TestFiles:
    """Return which files of a repository are tests. `text` returns the text of a file."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        is_settings = name in _PYTEST_FILES or _SCRIPT_FILES.fullmatch(name)
        if is_settings and "node_modules" not in folder.split("/"):
            folders.setdefault(folder, []).append(name)
    python: dict[str, _Python] = {}
    scripts: dict[str, tuple[str, ...]] = {}
    outermost = sorted(folders, key=lambda folder: (folder.count("/") + bool(folder), folder))
    for folder in outermost[:MAX_CONFIGURATIONS]:
        inside = f"{folder}/" if folder else ""
        texts = [(name, text(f"{inside}{name}")) for name in folders[folder]]
        files = [(name, content) for name, content in texts if len(content) <= MAX_CHARS]
        if (settings := _read_pytest_settings(dict(files))) is not None:
            rules = _Python(
                _words(settings.get("python_files")) or _PYTHON,
                tuple(word.strip("/") for word in _words(settings.get("testpaths"))),
                _words(settings.get("norecursedirs")) or _NOT_ENTERED,
            )
            below = [_below(folder, path) for path in paths if path.startswith(inside)]
            # Without a test in `testpaths`, pytest looks everywhere.
            if not any(_is_collected(rules, path) for path in below if path.endswith(".py")):
                rules = replace(rules, inside=())
            python[folder] = rules
        if patterns := _script_patterns(files):
            scripts[folder] = patterns
    return TestFiles(python, scripts)


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


def _read_pytest_settings(files: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return pytest's settings of a folder, as pytest finds them, or None if it has none."""
    for name in _PYTEST_FILES:
        if name not in files:
            continue
        if name.endswith("toml"):
            settings = _read_toml(files[name])
        else:
            parser = configparser.RawConfigParser(
                strict=False, allow_no_value=True, default_section=""
            )
            with suppress(configparser.Error):
                parser.read_string(files[name])
            section = "tool:pytest" if name == "setup.cfg" else "pytest"
            settings = dict(parser[section]) if parser.has_section(section) else None
        if settings is not None:
            return settings
        if name in ("pytest.ini", ".pytest.ini"):  # count even when empty
            return {}
    return None


def _read_toml(text: str) -> Mapping[str, Any] | None:
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    tool = document.get("tool")
    table = tool.get("pytest") if isinstance(tool, dict) else document.get("pytest")
    options = table.get("ini_options", table) if isinstance(table, dict) else None
    return options if isinstance(options, dict) else None


def _is_collected(rules: _Python, path: str) -> bool:
    """Return True if pytest collects a Python file below the folder of its configuration."""
    if not any(_pytest_match(path, pattern) for pattern in rules.files):
        return False
    parts = path.split("/")
    folders = ["/".join(parts[:count]) for count in range(1, len(parts))]
    if rules.inside:
        globs = [tuple(pattern.removeprefix("./").split("/")) for pattern in rules.inside]
        starts = [
            len(place) for place in (*folders, path) for glob in globs if matches(place, glob)
        ]
        if {"", "."}.intersection(rules.inside):
            starts.append(0)
        if not starts:
            return False
        folders = [folder for folder in folders if len(folder) > min(starts)]
    return not any(
        _pytest_match(folder, pattern) for folder in folders for pattern in rules.not_entered
    )


def _pytest_match(path: str, pattern: str) -> bool:
    """Return True if pytest's `fnmatch_ex` matches a pattern with a file or folder."""
    if "/" not in pattern:
        return fnmatchcase(path.rpartition("/")[2], pattern)
    return fnmatchcase(f"/{path}", f"*/{pattern.removeprefix('./')}")


def _words(value: Any) -> tuple[str, ...]:
    """Return the patterns of an option: a list, or words of one text."""
    if isinstance(value, str):
        try:
            value = shlex.split(value, comments=True)
        except ValueError:  # a quote is left open
            return ()
    texts = [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
    return tuple(text for text in texts[:_MAX_PATTERNS] if 0 < len(text) <= MAX_PATTERN)


# jest, vitest and mocha


def _script_patterns(files: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the patterns of JavaScript's runners in a folder, () if its files state none."""
    stated: list[str] = []
    runners: list[str] = []
    is_package = False
    for name, text in files:
        if name == "package.json":
            package = _read_mapping(json.loads, text)
            is_package = True
            for runner, option in (("jest", "testMatch"), ("mocha", "spec")):
                table = package.get(runner)
                stated += _texts(table.get(option)) if isinstance(table, dict) else []
            packages = f"{package.get('scripts')} {package.get('devDependencies')}"
            runners += _SCRIPT_RUNNER.findall(packages[:MAX_CHARS])
        elif name.endswith((".json", ".jsonc", ".yml", ".yaml")):
            options = _read_mapping(json.loads if ".json" in name else yaml.safe_load, text)
            stated += _texts(options.get("testMatch")) + _texts(options.get("spec"))
        elif _SCRIPT_FILES.fullmatch(name):  # code, which is searched and never run
            lists = (match[1] for match in _LIST_IN_CODE.finditer(text))
            literals = (literal[2] for part in lists for literal in _LITERAL.finditer(part))
            stated += [glob for glob in literals if "*" in glob and len(glob) <= MAX_PATTERN]
            runners += _SCRIPT_RUNNER.findall(name)
    patterns = [glob.removeprefix("<rootDir>/").removeprefix("./") for glob in stated]
    if patterns or not is_package:
        return tuple(patterns[:_MAX_PATTERNS])
    usual = [glob for runner in dict.fromkeys(runners) for glob in _OF_RUNNERS[runner]]
    return tuple(dict.fromkeys(usual)) or _SCRIPTS


def _texts(value: Any) -> list[str]:
    """Return the patterns of a JSON value: one text, or a list of texts."""
    values = value if isinstance(value, list) else [value]
    return [text for text in values[:_MAX_PATTERNS] if isinstance(text, str)]


def _read_mapping(parse: Callable[[str], Any], text: str) -> dict[str, Any]:
    try:
        document = parse(text)
    except (ValueError, RecursionError, yaml.YAMLError):
        return {}
    return document if isinstance(document, dict) else {}


_PLAIN_SCRIPTS = plain_globs(_SCRIPTS)

BY_CONVENTION = TestFiles()
"""The answer where the repository's configuration is not at hand."""
