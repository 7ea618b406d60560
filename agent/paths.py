"""What a repository's path says about its file: code, a test, or what runs tests.

Conventions of names alone, so that the same answer holds for a file that is there, one that
was deleted and one that is about to be written. Paths are relative to the repository's root,
with `/` between folders.
"""

import re
from pathlib import PurePosixPath

_TEST_FOLDERS = {"tests", "__tests__", "__mocks__", "__snapshots__", "e2e"}

_TEST_NAME = re.compile(
    r"test_.*\.pyi?"
    r"|.*_test\.(py|pyi|go|rb|c|cc|cpp|rs|dart|exs)"
    r"|tests?\.py"
    r"|.*\.(test|spec|cy)\.[cm]?[jt]sx?"
    r"|.*_spec\.rb",
    re.DOTALL,
)

_TEST_SUPPORT = re.compile(
    r"conftest\.py"
    r"|\.?pytest\.(ini|toml)|tox\.(ini|toml)|setup\.cfg|pyproject\.toml"
    r"|\.coveragerc|noxfile\.py|(site|user)customize\.py|.*\.pth"
    r"|(jest|vitest|playwright|cypress)(\.[\w-]+)*\.[cm]?[jt]s(on)?"
    r"|karma(\.[\w-]+)*\.[cm]?[jt]s|\.?mocharc(\.[\w-]+)?"
)


def is_test_file(path: str) -> bool:
    """Whether a file belongs to a test suite: a test module, or anything in a folder of tests.

    Helpers and data in such a folder count, for a test is only worth what it reads. A folder
    `test` counts where it is the first one, and elsewhere for all but Python, in which
    `package.test` is a library more often than a suite (`django.test`).
    """
    pure = PurePosixPath(path)
    folders = pure.parts[:-1]
    return (
        is_test_module(path)
        or not _TEST_FOLDERS.isdisjoint(folders)
        or folders[:1] == ("test",)
        or ("test" in folders and pure.suffix not in (".py", ".pyi"))
    )


def is_test_module(path: str) -> bool:
    """Whether a file is named as one that a test runner collects tests from."""
    return _TEST_NAME.fullmatch(PurePosixPath(path).name) is not None


def is_test_support(path: str) -> bool:
    """Whether a file decides which tests run, and how: conftest files, the configuration of
    test runners, and what Python imports before any of them."""
    return _TEST_SUPPORT.fullmatch(PurePosixPath(path).name) is not None
