"""Commits of patches, made in the mirror of a repository.

A commit depends only on its job, so that a job or a run that was interrupted makes the same ones
again.
"""

from collections.abc import Sequence
from pathlib import Path

from agent.errors import InfrastructureError
from eval import git
from eval.errors import RepositoryError
from eval.repositories import OWN_REFS
from flows.storage.lake import Row
from reports.quoting import quote_title

_AUTHOR, _EMAIL = "Durabench", "jobs@durabench.invalid"


def commit(mirror: Path, row: Row) -> str:
    """Commit the patch of a job on its base commit. Return the commit's id.

    Raises:
        InfrastructureError: git failed.
    """
    try:
        commit_id = commit_on(mirror, row["base_commit"], row)
        git.git(mirror, "update-ref", f"{OWN_REFS}/{row['job_id']}", commit_id)
    except RepositoryError as error:
        raise InfrastructureError(f"no commit of the patch: {error}", retryable=False) from error
    return commit_id


def commit_on(mirror: Path, parent: str, row: Row) -> str:
    """Commit the patch of a job on any commit. Return the commit's id.

    Raises:
        RepositoryError: the patch does not fit to that commit, or git failed.
    """
    date = row["submitted_at"].isoformat()
    who = {
        "GIT_AUTHOR_NAME": _AUTHOR,
        "GIT_AUTHOR_EMAIL": _EMAIL,
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_NAME": _AUTHOR,
        "GIT_COMMITTER_EMAIL": _EMAIL,
        "GIT_COMMITTER_DATE": date,
    }
    with git.temporary(mirror) as folder:
        index = {"GIT_INDEX_FILE": str(folder / "index")}
        patch = row["patch"].encode(errors="surrogateescape")
        git.git(mirror, "read-tree", parent, variables=index)
        git.git(mirror, "apply", "--cached", "--3way", "--binary", "--whitespace=nowarn", "-",
                text=patch, variables=index)  # fmt: skip
        tree = git.git(mirror, "write-tree", variables=index)
    origin = f"Made by arm {row['arm']} {_name_job(row)}"
    message = f"{quote_title(row['title'])}\n\n{origin}\n"
    return git.git(mirror, "commit-tree", tree, "-p", parent, text=message.encode(), variables=who)


def find(mirror: Path, row: Row, head: str) -> str | None:
    """Return the commit of a job among those up to a head; None if it is not among them."""
    if head == row["commit"]:
        return head
    return git.git(
        mirror, "log", "-1", "--format=%H", "--fixed-strings", f"--grep={_name_job(row)}",
        f"{row['base_commit']}..{head}",
    ) or None  # fmt: skip


def _name_job(row: Row) -> str:
    return f"of job {row['job_id']} of Durabench."


class Conflict(Exception):
    """The patches of steps do not fit together. The step that needs both fails."""


def combine(mirror: Path, base: str, steps: Sequence[Row], name: str) -> str:
    """Commit the patches of steps on a base commit, in order. Return the last commit.

    `steps` are rows of jobs, each after the steps that it builds on. `name` is for its ref.

    Raises:
        Conflict: two steps change the same lines.
    """
    head, steps = base, [step for step in steps if step["patch"].strip()]
    for number, row in enumerate(steps):
        if row["base_commit"] == head:
            head = commit(mirror, row)
            continue
        try:
            head = commit_on(mirror, head, row)
        except RepositoryError as error:
            others = ", ".join(str(earlier["step"]) for earlier in steps[:number])
            raise Conflict(
                f"the patch of step {row['step']} does not fit together with the patches of "
                f"{others}: {error}"
            ) from None
    git.git(mirror, "update-ref", f"{OWN_REFS}/{name}", head)
    return head
