"""The changes of a patch, file by file, and the kinds of files by path: tests and their runners.

Paths are relative to the repository's root, with `/` between folders. Only the path counts for the
kind, so that the answer also holds for a file that a patch adds or removes.
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchedFile, PatchSet

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


Action = Literal["added", "modified", "deleted", "renamed"]

_SYMBOLIC_LINK = re.compile(r"^(?:new file mode|new mode|index \S+) 120000$", re.MULTILINE)
_COPY = re.compile(r"^copy from ", re.MULTILINE)

# GNU patch, the last of the official commands, also accepts context and normal diffs.
_OTHER_FORMATS = re.compile(r"^(?:\*{15}|\d+(?:,\d+)?[acd]\d+(?:,\d+)?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class FileInPatch:
    """The change to one file. Paths are written as in the patch, without `a/` and `b/`."""

    path: str
    """Path of the file after the change, or of a deleted file before it."""
    old_path: str
    """Path of the file before the change. For an added file, the same as `path`."""
    action: Action
    added: tuple[str, ...]
    """Lines without their line endings. Empty for a binary file."""
    removed: tuple[str, ...]
    is_link: bool
    """True if the file is a symbolic link after the change. Its target is the added line."""

    @property
    def paths(self) -> tuple[str, ...]:
        """All affected paths: two for a renamed file."""
        return tuple(dict.fromkeys((self.old_path, self.path)))


def read(patch: str) -> list[FileInPatch]:
    """Return the changes of a unified diff, in its order.

    Raises:
        ValueError: the text is not a unified diff, or has parts in another format that GNU patch
            might apply.
    """
    if match := _OTHER_FORMATS.search(patch):
        raise ValueError(f"{match[0].strip()!r} is not of a unified diff")
    try:
        changes = [_change(file) for file in PatchSet.from_string(patch)]
    except UnidiffParseError as error:
        raise ValueError(str(error)) from error
    if patch.strip() and not changes:
        raise ValueError("no file is named in it")
    return changes


def read_or_nothing(diff: str) -> list[FileInPatch]:
    """Return the changes as `read` does; none if the diff is unreadable, for example cut off."""
    try:
        return read(diff)
    except ValueError:
        return []


def _change(file: PatchedFile) -> FileInPatch:
    info = str(file.patch_info or "")
    old, new = _path(file.source_file), _path(file.target_file)
    lines = [line for hunk in file for line in hunk]
    action: Action = "renamed" if file.is_rename else "modified"
    if file.is_added_file or _COPY.search(info):
        action = "added"
    elif file.is_removed_file:
        action = "deleted"
    return FileInPatch(
        path=old if action == "deleted" else new,
        old_path=new if action == "added" else old,
        action=action,
        added=tuple(line.value.rstrip("\r\n") for line in lines if line.is_added),
        removed=tuple(line.value.rstrip("\r\n") for line in lines if line.is_removed),
        is_link=_SYMBOLIC_LINK.search(info) is not None,
    )


def _path(name: str) -> str:
    """Return the path of a header line, unquoted and without the `a/` or `b/` prefix."""
    name = name.rstrip("\r")
    if name.startswith('"') and name.endswith('"'):
        escaped = name[1:-1].encode().decode("unicode_escape")
        name = escaped.encode("latin-1").decode(errors="replace")
    return name[2:] if name.startswith(("a/", "b/")) else name
