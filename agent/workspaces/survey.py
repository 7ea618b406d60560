"""What the scripts of a workspace print: is the image fit, and what is the state of the work tree.

What can never work in an image is found when it is opened. `probe.sh` looks, as part of the first
exchange, and Docker finds the rest, such as an image without a shell. Nobody checks again inside.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.errors import Unfit, WorkspaceError
from agent.workspaces.protocol import Change, ChangeStatus
from agent.workspaces.shell import FinishedCommand

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
    """The known ids of the contents of changed files."""
    before: str = ""
    """The tree before the last change that was noticed, if it is known."""
    since: Sequence[Change] | None = None
    """Differences from the tree `before`, if it is known."""
    delta: bytes | None = None
    """Difference from the base commit, if it is small and was computed."""


def parse_survey(printed: bytes, last: Survey | None, files: Collection[str]) -> Survey:
    """Return a survey.

    `last` is the survey before, of which the same tree needs nothing again. `files` are those at
    the opening.

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
    entries = list(_entries(changed or b""))
    changes = _since_opening(entries, present or b"", files)
    # Git keeps the id of a file that it could not read.
    blobs = {path: blob for path, _, blob in entries if blob and left_out == b"0"}
    now = Survey(stamp.decode(), tree_id(tree), changes, blobs, delta=delta)
    if last is not None and last.tree == now.tree:
        return replace(now, before=last.before, since=last.since, delta=last.delta)
    if last is not None and since is not None:
        return replace(now, before=last.tree, since=parse_changes(since))
    return now


def parse_changes(listed: bytes) -> list[Change]:
    """Return the changes of a list, sorted by path."""
    return _sorted(Change(path, status) for path, status, _ in _entries(listed))


def parse_files(listed: bytes) -> frozenset[str]:
    """Return the paths of a list of files, each of which has its kind before its path."""
    return frozenset(path for _, path in _files(listed))


def parse_paths(listed: bytes) -> frozenset[str]:
    """Return the paths of a list, each ending in NUL."""
    return frozenset(_split(listed))


def _split(listed: bytes) -> list[str]:
    return listed.decode(errors="surrogateescape").split("\0")[:-1]


def _since_opening(
    entries: Iterable[tuple[str, ChangeStatus, str]], present: bytes, files: Collection[str]
) -> list[Change]:
    """Return the changes that git lists, and new files even if git ignores them.

    A pipe in place of a file is a change, too.
    """
    changes = [Change(path, status) for path, status, _ in entries if status != "added"]
    for kind, path in _files(present):
        if path not in files:
            changes.append(Change(path, "added"))
        elif kind not in ("f", "l"):
            changes.append(Change(path, "typechange"))
    return _sorted(changes)


def _sorted(changes: Iterable[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: change.path)


def _files(listed: bytes) -> Iterator[tuple[str, str]]:
    """Yield kind and path of each file: `f` for a file, `l` for a link."""
    for each in _split(listed):
        yield each[0], each[1:]


def _entries(listed: bytes) -> Iterator[tuple[str, ChangeStatus, str]]:
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
        WorkspaceError: it is none.
    """
    tree = output.decode(errors="replace").strip()
    if not re.fullmatch("[0-9a-f]{40}", tree):
        raise WorkspaceError(f"git names no tree: {tree[-500:]}", retryable=False)
    return tree


_UNFIT = 45
_BAD_REQUEST = 400
_KILLED = 128
"""Exit codes above are those of processes that a signal ended."""

_NO_TOOLS = "it cannot run bash and sleep: install bash and coreutils, and leave them on PATH"
_NO_SERVER = {
    1: "its user cannot enter the folder {root}: put the repository there, and let the user enter",
    126: _NO_TOOLS,
    127: _NO_TOOLS,
}
"""Reasons why the command server did not start, by its exit code."""


def expect_start(image: str, status: int | None, text: str) -> None:
    """Check Docker's reason for not starting a container: an HTTP status and a text.

    Raises:
        Unfit: it is the image.
    """
    if status == _BAD_REQUEST or "unable to find user" in text:
        raise _unfit(image, f"none of its containers can start, as Docker says: {text}")


def expect_first_process(image: str, exit_code: int) -> None:
    """Check the exit code of the first process of a container, which should not end.

    Raises:
        Unfit: it ended by itself.
    """
    if exit_code < _KILLED:
        raise _unfit(image, _NO_TOOLS)


def expect_server(image: str, root: str, exit_code: int | None) -> None:
    """Check the exit code of a command server that did not answer.

    Raises:
        Unfit: it could not start in this image.
    """
    if exit_code in _NO_SERVER:
        raise _unfit(image, _NO_SERVER[exit_code].format(root=root))


def expect_fit(done: FinishedCommand, what: str) -> None:
    """Check the result of a script that began with `probe`.

    Raises:
        Unfit: nothing can be done in `what`, such as an image; the message says why in one line.
    """
    if done.exit_code == _UNFIT:
        raise Unfit.of(what, done.text)


def _unfit(image: str, reason: str) -> Unfit:
    return Unfit.of(f"image {image}", reason)
