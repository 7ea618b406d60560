"""Classification of files by path: tests, test configuration, test runners.

Only the path counts, so that the answer also holds for a file that a patch adds or removes.
Paths are relative to the repository's root, with `/` between folders.
"""

import re
from pathlib import PurePosixPath

_TEST_FOLDERS = frozenset({"test", "tests", "testing", "e2e", "__tests__", "__snapshots__"})

_TEST_NAME = re.compile(r"tests?[_.].*|.*_tests?\.\w+|.*\.(test|spec)\.\w+", re.DOTALL)

_CONFIGURATION_NAME = re.compile(
    r"conftest\.py|\.?pytest\.(ini|toml)|tox\.(ini|toml)|setup\.cfg|pyproject\.toml|package\.json"
    r"|\.coveragerc|noxfile\.py|(site|user)customize\.py|.*\.pth|runtests\.py"
    r"|\.?(jest|vitest|karma|mocharc|playwright|cypress)(\.[\w-]+)*"
)

_RUNNERS = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "unittest", "nose", "tox"})


def is_test(path: str) -> bool:
    """Return True if a file belongs to a test suite.

    SWE-bench separates tests from other changes by the same names.
    """
    pure = PurePosixPath(path)
    in_suite = not _TEST_FOLDERS.isdisjoint(pure.parts[:-1])
    return in_suite or _TEST_NAME.fullmatch(pure.name) is not None


def is_test_configuration(path: str) -> bool:
    """Return True if a file decides which tests run, or how.

    Such files are conftest files, the configuration of test runners, files that Python imports
    before any of them, and runners that are part of a repository: `runtests.py` of Django and
    SymPy, and SymPy's `bin/test`.
    """
    return path == "bin/test" or _CONFIGURATION_NAME.fullmatch(PurePosixPath(path).name) is not None


def is_runner(path: str) -> bool:
    """Return True if a file is code of a test runner. Such repositories are benchmarked too."""
    return any(part.removesuffix(".py") in _RUNNERS for part in PurePosixPath(path).parts)
