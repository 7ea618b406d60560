"""The state of a work tree at one moment, as `work_tree.sh` prints it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    """Differences from the opening, if they were asked for."""
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
    changes = None if found is None else parse_changes(found)
    if last is not None and last.tree == tree_id(tree):
        return replace(last, stamp=stamp.decode(), changes=changes)
    known = None if since is None or last is None else (last.tree, parse_changes(since))
    before, between = known or ("", None)
    return Survey(stamp.decode(), tree_id(tree), changes, before, between, delta)


def parse_changes(listed: bytes) -> list[Change]:
    """Return the changes of a list, sorted by path."""
    fields = listed.decode(errors="surrogateescape").split("\0")[:-1]
    found = [
        Change(path, _STATUSES[status])
        for status, path in zip(fields[::2], fields[1::2], strict=True)
    ]
    return sorted(found, key=lambda change: change.path)


def tree_id(output: bytes) -> str:
    """Return the id of a tree.

    Raises:
        WorkspaceError: it is none.
    """
    tree = output.decode(errors="replace").strip()
    if not re.fullmatch("[0-9a-f]{40}", tree):
        raise WorkspaceError(f"git names no tree: {tree[-500:]}", retryable=False)
    return tree
