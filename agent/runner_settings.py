"""Test configuration: its files, settings in shared files, and modules that can replace runners.

Only names decide whether a file is one, so the answer is the same for existing, deleted and
future files. Paths are relative to the repository's root.

The settings are sections of pytest, tox and coverage, plugins of pytest by entry point, and the
scripts of `package.json`. The protection of an arm and the audit of a verdict both ask `differ`.
"""

import configparser
import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

_INI_SECTIONS = (
    *("pytest", "tool:pytest", "tox", "testenv", "coverage", "nosetests", "unittest"),
    *("test", "aliases"),  # of `setup.py test`
)
_TOML_TOOLS = ("pytest", "tox", "coverage", "nose")
_PLUGINS = "pytest11"
"""The entry point of pytest's plugins."""
_PACKAGE_KEYS = frozenset(
    {
        *("scripts", "jest", "mocha", "ava", "nyc", "c8", "tap", "karma", "vitest"),
        *("playwright", "cypress"),
    }
)


def has_settings(path: str) -> bool:
    """Return True if a file of this name can hold settings of test runners and other settings."""
    return PurePosixPath(path).name in _READERS


def differ(path: str, before: bytes, now: bytes) -> bool:
    """Return True if two contents of a file differ in the settings of test runners.

    They count as different if one of them cannot be parsed, or the file has no other settings.
    """
    read = _READERS.get(PurePosixPath(path).name)
    if read is None:
        return True
    try:
        return read(before.decode()) != read(now.decode())
    except (ValueError, RecursionError, configparser.Error):
        return True


def _read_toml(text: str) -> dict[str, Any]:
    """Return the settings in a `pyproject.toml`."""
    document = tomllib.loads(text)
    tools = _table(document, "tool")
    return {
        "tools": {name: table for name, table in tools.items() if name.startswith(_TOML_TOOLS)},
        "plugins": [
            _table(document, "project", "entry-points").get(_PLUGINS),
            _table(tools, "poetry", "plugins").get(_PLUGINS),
        ],
    }


def _table(document: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return a table inside a document, empty if there is none."""
    for name in names:
        inner = document.get(name, {})
        document = inner if isinstance(inner, Mapping) else {}
    return document


def _read_ini(text: str) -> dict[str, dict[str, str]]:
    """Return the settings in a `setup.cfg` or `tox.ini`.

    Lines are split by Python's `splitlines`, as by pytest's own parser, so that a form feed cannot
    hide a section.
    """
    parser = configparser.RawConfigParser(default_section="")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string("\n".join(text.splitlines()))
    sections = {name: dict(parser[name]) for name in parser.sections()}
    return {
        name: options
        for name, options in sections.items()
        if name.strip().startswith(_INI_SECTIONS)
    } | {
        name: {_PLUGINS: options[_PLUGINS]}
        for name, options in sections.items()
        if name.strip() == "options.entry_points" and _PLUGINS in options
    }


def _read_json(text: str) -> dict[str, Any]:
    """Return the settings in a `package.json`."""
    document = json.loads(text) if text.strip() else {}
    if not isinstance(document, dict):
        raise ValueError("no object")
    return {name: value for name, value in document.items() if name in _PACKAGE_KEYS}


_READERS: Mapping[str, Callable[[str], object]] = {
    "pyproject.toml": _read_toml,
    "setup.cfg": _read_ini,
    "tox.ini": _read_ini,
    "package.json": _read_json,
}


_TEST_SUPPORT = re.compile(
    r"conftest\.py"
    r"|\.?pytest\.(ini|toml)|tox\.(ini|toml)|setup\.cfg|pyproject\.toml|package\.json"
    r"|\.coveragerc|noxfile\.py|(site|user)customize\.py|.*\.pth|runtests\.py"
    r"|(jest|vitest|playwright|cypress)(\.[\w-]+)*\.[cm]?[jt]s(on)?"
    r"|karma(\.[\w-]+)*\.[cm]?[jt]s|\.?mocharc(\.[\w-]+)?"
)


def is_test_support(path: str) -> bool:
    """Return True if a file decides which tests run and how.

    Such files are conftest files, the configuration of test runners, the modules that Python
    imports before any of them, the entry points of pytest's plugins, and runners that are
    part of a repository: `runtests.py` of Django and SymPy, and SymPy's `bin/test`.
    """
    pure = PurePosixPath(path)
    return (
        path == "bin/test"
        or _TEST_SUPPORT.fullmatch(pure.name) is not None
        or (pure.name == "entry_points.txt" and pure.parent.suffix in (".egg-info", ".dist-info"))
    )


_IMPORT_ROOTS = {"src", "lib", "bin", "python"}
_RUNNERS = {"pytest", "_pytest", "pluggy", "py", "iniconfig", "xdist", "nose", "mock"}
_MODULE_SUFFIX = re.compile(r"(\.py|\.pyc|(\.[\w-]+)*\.so|)")


def shadows_a_module(path: str) -> bool:
    """Return True if Python could import a new file in place of a test runner or its library.

    This is a module or a package at the root, or in a folder that is usually on Python's path,
    with the name of pytest, of its dependencies, or of a module of the standard library. A
    link without a suffix can be a package.
    """
    parts = PurePosixPath(path).parts
    inner = parts[1:] if parts[:1] and parts[0] in _IMPORT_ROOTS and len(parts) > 1 else parts
    if len(inner) == 2 and inner[1].partition(".")[0] == "__init__":
        name, suffix = inner[0], inner[1].removeprefix("__init__")
    elif len(inner) == 1:
        name, dot, rest = inner[0].partition(".")
        suffix = dot + rest
    else:
        return False
    is_module = _MODULE_SUFFIX.fullmatch(suffix) is not None
    return is_module and (name in _RUNNERS or name in sys.stdlib_module_names)
