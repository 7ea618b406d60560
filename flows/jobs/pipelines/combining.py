"""The commits of a pipeline: the base plus the patches of steps, one commit for each.

A commit depends only on the steps, so that a run that was interrupted makes the same ones again.
"""

from collections.abc import Sequence
from pathlib import Path

from eval import git
from eval.errors import RepositoryError
from eval.repositories import OWN_REFS
from flows.jobs import commits
from flows.storage.lake import Row


class Conflict(Exception):
    """The patches of steps do not fit together. The step that needs both fails."""


def combined(mirror: Path, base: str, steps: Sequence[Row], name: str) -> str:
    """Commit the patches of steps on a base commit, in order. Return the last commit.

    `steps` are rows of jobs, each after those that it builds on. The commit is kept under the name.

    Raises:
        Conflict: two steps change the same lines.
    """
    head = base
    for number, row in enumerate(steps):
        if row["base_commit"] == head:
            head = commits.commit(mirror, row)
            continue
        try:
            head = commits.commit_on(mirror, head, row)
        except RepositoryError as error:
            others = ", ".join(str(each["step"]) for each in steps[:number])
            raise Conflict(
                f"the patch of step {row['step']} does not fit together with that of {others}: "
                f"{error}"
            ) from None
    git.git(mirror, "update-ref", ref(name), head)
    return head


def ref(name: str) -> str:
    """Return the ref under which a mirror keeps a commit."""
    return f"{OWN_REFS}/{name}"
