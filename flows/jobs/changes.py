"""The files that a patch changes, as git reads it when it makes the commit."""

import re
from pathlib import Path

from eval import git
from eval.errors import RepositoryError
from flows.storage.files import encode_patch

_RENAMED = re.compile(r"^rename from (.+)$", re.MULTILINE)


def changed_files(patch: str) -> list[tuple[str, int, int]]:
    """Return path, added and removed lines of each file of a patch; none if git cannot read it.

    A binary file has no lines.
    """
    if not patch.strip():
        return []
    try:
        # Inside a repository, git would leave out files of other folders.
        shown = git.git(
            Path("/"), "apply", "--numstat", "-z", "-",
            given=git.Given(text=encode_patch(patch), variables={"GIT_DIR": "/nonexistent"}),
        )  # fmt: skip
    except RepositoryError:
        return []
    found = (record.split("\t", 2) for record in shown.split("\0") if record)
    return [(path, _count(added), _count(removed)) for added, removed, path in found]


def changed_paths(patch: str) -> list[str]:
    """Return the paths of the files of a patch, those before a renaming, too."""
    return [*(path for path, _, _ in changed_files(patch)), *_RENAMED.findall(patch)]


def _count(lines: str) -> int:
    return 0 if lines == "-" else int(lines)
