"""The state of a work tree at one moment, as `work_tree.sh` prints it."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.errors import WorkspaceError
from agent.workspaces.protocol import Change, ChangeStatus

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
    changes: Sequence[Change] | None = None
    """Differences from the opening, if they are known."""
    blobs: Mapping[str, str] = field(default_factory=dict)
    """The ids of the contents of changed files, as far as they are known."""
    before: str = ""
    """The tree before the last change that was noticed, if it is known."""
    since: Sequence[Change] | None = None
    """Differences from the tree `before`, if it is known."""
    delta: bytes | None = None
    """Difference from the base commit, if it is small and was computed."""


def parse_survey(printed: bytes, last: Survey | None) -> Survey:
    """Return a survey. `last` is the survey before, of which the same tree needs nothing again.

    Raises:
        WorkspaceError: git names no tree.
    """
    head, _, rest = printed.partition(b"\n")
    stamp, tree, *sizes = head.split(b" ")
    parts: list[bytes | None] = []
    for size in map(int, sizes):
        parts.append(rest[:size] if size >= 0 else None)
        rest = rest[max(size, 0) :]
    found, since, delta = [*parts, None, None, None][:3]
    changes, blobs = (None, {}) if found is None else _since_opening(found)
    if last is not None and last.tree == tree_id(tree):
        return replace(last, stamp=stamp.decode(), changes=changes, blobs=blobs)
    known = None if since is None or last is None else (last.tree, parse_changes(since))
    before, between = known or ("", None)
    return Survey(stamp.decode(), tree_id(tree), changes, blobs, before, between, delta)


def parse_restored(
    printed: bytes, tree: str, delta: bytes | None, *, lists_changes: bool
) -> Survey:
    """Return the survey of a tree that was just restored, and verified."""
    stamp, _, found = printed.partition(b"\n")
    changes, blobs = _since_opening(found) if lists_changes else (None, {})
    return Survey(stamp.decode().strip(), tree, changes, blobs, delta=delta)


def parse_changes(listed: bytes) -> list[Change]:
    """Return the changes of a list, sorted by path."""
    found = [Change(path, status) for path, status, _ in _entries(listed)]
    return sorted(found, key=lambda change: change.path)


def _since_opening(listed: bytes) -> tuple[list[Change], dict[str, str]]:
    """Return the changes of a list, sorted by path, and the ids of the contents by path.

    Files that git would add are listed twice: by git with their ids, and among all new files.
    """
    entries = list(_entries(listed))
    changes = [
        Change(path, status) for path, status, blob in entries if blob is None or status != "added"
    ]
    blobs = {path: blob for path, _, blob in entries if blob}
    return sorted(changes, key=lambda change: change.path), blobs


def _entries(listed: bytes) -> Iterator[tuple[str, ChangeStatus, str | None]]:
    """Yield path, status and id of the content: '' for other than a file, None if it is not given.

    git's raw form is `:<mode> <mode> <id> <id> <status>`.
    """
    fields = listed.decode(errors="surrogateescape").split("\0")[:-1]
    for kind, path in zip(fields[::2], fields[1::2], strict=True):
        if not kind.startswith(":"):
            yield path, _STATUSES[kind], None
            continue
        _, mode, _, blob, status = kind.split(" ")
        yield path, _STATUSES[status], blob if mode.startswith("100") else ""


def blob_id(content: bytes) -> str:
    """Return git's id of a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def tree_id(output: bytes) -> str:
    """Return the id of a tree.

    Raises:
        WorkspaceError: it is none.
    """
    tree = output.decode(errors="replace").strip()
    if not re.fullmatch("[0-9a-f]{40}", tree):
        raise WorkspaceError(f"git names no tree: {tree[-500:]}", retryable=False)
    return tree
