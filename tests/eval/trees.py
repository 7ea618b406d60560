"""Changes of a work tree as a patch's text describes them, without a tree."""

from datetime import UTC, datetime

from eval import patches
from eval.patches import FileInPatch
from eval.types import Applied, Evaluation, FileChange


def applied(patch: str) -> Applied:
    """Return what a patch changes. Of the contents there are the lines that it adds and removes."""
    return Applied(tuple(each for change in patches.read(patch) for each in _files(change)))


def _files(change: FileInPatch) -> list[FileChange]:
    before, now = ("\n".join(lines).encode() for lines in (change.removed, change.added))
    if change.action == "renamed":
        return [
            FileChange(change.old_path, before, None),
            FileChange(change.path, None, now, change.is_link, is_copy=not now),
        ]
    return [
        FileChange(
            change.path,
            None if change.action == "added" else before,
            None if change.action == "deleted" else now,
            change.is_link,
        )
    ]


def graded(change: Applied) -> Evaluation:
    """Return an unresolved grading of such a change. Its audit gives the reasons all the same."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    return Evaluation("x", "unresolved", False, "docker", now, 1.0, 60.0, "5", applied=change)
