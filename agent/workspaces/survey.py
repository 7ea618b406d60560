"""Parsers of the output of scripts about the state of a work tree."""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.errors import WorkspaceError
from agent.workspaces.workspace_values import Change, ChangeStatus

INLINE_DELTA_BYTES = 4 * 2**20
"""Largest delta that a survey has."""

_STATUSES: dict[str, ChangeStatus] = {
    "A": "added",
    "M": "modified",
    "D": "deleted",
    "T": "typechange",
}


@dataclass(frozen=True)
class Survey:
    """A work tree at one moment."""

    stamp: str
    """The time of the survey, in seconds of the workspace's clock."""
    tree: str
    changes: Sequence[Change]
    """Differences from the opening."""
    blobs: Mapping[str, str] = field(default_factory=dict)
    """Ids of the contents of changed files, if git has them."""
    before: str = ""
    """The tree before the last change that was noticed, or ''."""
    since: Sequence[Change] | None = None
    """Differences from the tree `before`, or None if they are unknown."""
    delta: bytes | None = None
    """Difference from the base commit, if it is small and was computed."""


def parse_survey(printed: bytes, last: Survey | None, files: Collection[str]) -> Survey:
    """Return a survey. The changes include new files that git ignores.

    `last` is the survey before. Its data hold for the same tree. `files` are the files at the
    opening.

    Raises:
        WorkspaceError: git names no tree.
    """
    head, _, rest = printed.partition(b"\n")
    stamp, tree, left_out, *sizes = head.split(b" ")
    parts: list[bytes | None] = []
    for size in map(int, sizes):
        parts.append(rest[:size] if size >= 0 else None)
        rest = rest[max(size, 0) :]
    present, changed, since, delta = [*parts, None, None][:4]
    entries = list(_parse_entries(changed or b""))
    changes = [Change(path, status) for path, status, _ in entries if status != "added"]
    for kind, path in _parse_kinds(present or b""):
        if path not in files:
            changes.append(Change(path, "added"))
        elif kind not in ("f", "l"):  # a pipe took the place of a file
            changes.append(Change(path, "typechange"))
    # Git keeps the id of a file that it could not read.
    blobs = {path: blob for path, _, blob in entries if blob and left_out == b"0"}
    now = Survey(stamp.decode(), tree_id(tree), _sort(changes), blobs, delta=delta)
    if last is not None and last.tree == now.tree:
        return replace(now, before=last.before, since=last.since, delta=last.delta)
    if last is not None and since is not None:
        return replace(now, before=last.tree, since=parse_changes(since))
    return now


def parse_changes(listed: bytes) -> list[Change]:
    """Return the changes of a list, sorted by path."""
    return _sort([Change(path, status) for path, status, _ in _parse_entries(listed)])


def parse_files(listed: bytes) -> frozenset[str]:
    """Return the paths of a list of files with their kinds."""
    return frozenset(path for _, path in _parse_kinds(listed))


def parse_paths(listed: bytes) -> frozenset[str]:
    """Return the paths of a list, each ending in NUL."""
    return frozenset(_split(listed))


def _split(listed: bytes) -> list[str]:
    return listed.decode(errors="surrogateescape").split("\0")[:-1]


def _sort(changes: Sequence[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: change.path)


def _parse_kinds(listed: bytes) -> Iterator[tuple[str, str]]:
    """Yield kind and path of each file: `f` for a file, `l` for a link."""
    for record in _split(listed):
        yield record[0], record[1:]


def _parse_entries(listed: bytes) -> Iterator[tuple[str, ChangeStatus, str]]:
    """Yield path, status and id of the content, which is '' for a link and a repository.

    Each entry is `:<mode> <mode> <id> <id> <status>` and the path, as by git's raw form.
    """
    fields = _split(listed)
    for kind, path in zip(fields[::2], fields[1::2], strict=True):
        _, mode, _, blob, status = kind.split(" ")
        yield path, _STATUSES[status], blob if mode.startswith("100") else ""


def blob_id(content: bytes) -> str:
    """Return git's id of a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def tree_id(output: bytes) -> str:
    """Return the id of a tree.

    Raises:
        WorkspaceError: git printed something else.
    """
    tree = output.decode(errors="replace").strip()
    if not re.fullmatch("[0-9a-f]{40}", tree):
        raise WorkspaceError(f"git names no tree: {tree[-500:]}", retryable=False)
    return tree
