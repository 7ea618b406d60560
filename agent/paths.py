"""Classification of repository paths: test configuration, and what can replace test runners.

Only names decide, so the answer is the same for a file that exists, one that was deleted and one
that is about to be written. `testfiles` says which files are tests. Paths are relative to the
repository's root and separate folders with `/`.
"""

import re
import sys
from pathlib import PurePosixPath

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
    imports before any of them, the entry points by which pytest finds plugins, and runners that are
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
    with the name of pytest, of what pytest imports, or of a module of the standard library. A
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
