"""The steps of an attempt that wrote the lines of its patch."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.journal import RecordedStep
from agent.journal.blobs import Blobs
from eval import patches
from eval.patches import FileInPatch

Lines = tuple[tuple[str, ...], tuple[str, ...]]
"""Removed and added lines of one file."""


@dataclass(frozen=True)
class Written:
    """One file of a patch, and the step that left it as the patch has it."""

    path: str
    added: int
    removed: int
    step: RecordedStep | None
    """None if no step with a work tree left exactly these lines."""


def writers(patch: str, steps: Sequence[RecordedStep], blobs: Blobs) -> list[Written]:
    """Return the files of a patch with the steps that wrote them.

    A step counts if its work tree has the lines of the patch and the tree before it had others.

    Raises:
        JournalError: a stored work tree cannot be read.
    """
    changes = {change.path: change for change in _read(patch)}
    writer: dict[str, RecordedStep | None] = dict.fromkeys(changes)
    trees = dict[str, dict[str, Lines]]()  # changes of the last step, by workspace and path
    for step in sorted(steps, key=lambda step: step.ordinal):
        if step.tree is None:
            continue
        delta = blobs.get(step.tree.delta) if step.tree.delta else b""
        lines = {change.path: _lines(change) for change in _read(delta.decode("utf-8", "replace"))}
        before = trees.get(step.bench or "", {})
        for path, change in changes.items():
            if lines.get(path) == _lines(change) != before.get(path):
                writer[path] = step
        trees[step.bench or ""] = lines
    return [
        Written(path, len(change.added), len(change.removed), writer[path])
        for path, change in changes.items()
    ]


def differing(one: str, other: str) -> list[str]:
    """Return the paths that two patches change differently, or that only one of them changes."""
    first, second = ({c.path: _lines(c) for c in _read(patch)} for patch in (one, other))
    return sorted(
        path for path in first.keys() | second.keys() if first.get(path) != second.get(path)
    )


def _read(patch: str) -> list[FileInPatch]:
    """Return the changes of a patch; none if it cannot be parsed, such as a binary patch."""
    try:
        return patches.read(patch)
    except ValueError:
        return []


def _lines(change: FileInPatch) -> Lines:
    return change.removed, change.added
