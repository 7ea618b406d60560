"""What a path says about its file: a test, or what decides how tests run.

By names alone, so that the answer also holds for a file that a patch adds or removes. Paths
are relative to the repository's root, with `/` between folders.
"""

import re
from pathlib import PurePosixPath

_TEST_FOLDERS = frozenset({"test", "tests", "testing", "e2e", "__tests__", "__snapshots__"})

_TEST_NAME = re.compile(r"tests?[_.].*|.*_tests?\.\w+|.*\.(test|spec)\.\w+", re.DOTALL)

_CONFIGURATION_NAME = re.compile(
    r"conftest\.py|\.?pytest\.(ini|toml)|tox\.(ini|toml)|setup\.cfg|pyproject\.toml"
    r"|\.coveragerc|noxfile\.py|(site|user)customize\.py|.*\.pth"
    r"|\.?(jest|vitest|karma|mocharc|playwright|cypress)(\.[\w-]+)*"
)

_RUNNERS = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "unittest", "nose", "tox"})


def is_test(path: str) -> bool:
    """Whether a file belongs to a test suite; SWE-bench divides a change by the same words."""
    pure = PurePosixPath(path)
    in_suite = not _TEST_FOLDERS.isdisjoint(pure.parts[:-1])
    return in_suite or _TEST_NAME.fullmatch(pure.name) is not None


def is_test_configuration(path: str) -> bool:
    """Whether a file decides which tests run, and how: conftest files, the configuration of
    test runners, and what Python imports before any of them."""
    return _CONFIGURATION_NAME.fullmatch(PurePosixPath(path).name) is not None


def is_runner(path: str) -> bool:
    """Whether a file is the code of a test runner: such repositories are benchmarked too."""
    return any(part.removesuffix(".py") in _RUNNERS for part in PurePosixPath(path).parts)


def shadows_runner(path: str) -> bool:
    """Whether tests that are started in the root would import it in place of the runner."""
    return PurePosixPath(path).parts[0].removesuffix(".py") in _RUNNERS
