"""The commit of a patch, made in the mirror of a repository, and its push.

The commit depends only on the job, so that a job that was interrupted makes the same one again.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from agent.errors import InfrastructureError
from eval import git
from eval.errors import RepositoryError
from eval.repositories import OWN_REFS, RepositorySource, is_refused
from flows.display.errors import UsageError
from flows.jobs.request import TOKEN, access_to
from flows.storage.lake import Row
from reports.quoting import quote_title

_AUTHOR, _EMAIL = "Durabench", "jobs@durabench.invalid"
_PROTECTED = re.compile(r"protected branch|GH006|GH013|pre-receive hook declined", re.IGNORECASE)


@dataclass(frozen=True)
class Target:
    """The branch that a job pushes to."""

    source: RepositorySource
    branch: str
    parent: str | None
    """The commit of the branch before the push; None if there is no such branch yet."""


def commit(mirror: Path, row: Row) -> str:
    """Commit the patch of a job on its base commit. Return the commit's id.

    Raises:
        InfrastructureError: git failed.
    """
    try:
        made = commit_on(mirror, row["base_commit"], row)
        git.git(mirror, "update-ref", f"{OWN_REFS}/{row['job_id']}", made)
    except RepositoryError as error:
        raise InfrastructureError(f"no commit of the patch: {error}", retryable=False) from error
    return made


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
        indexed = git.Given(variables=index)
        patch = row["patch"].encode(errors="surrogateescape")
        git.git(mirror, "read-tree", parent, given=indexed)
        git.git(mirror, "apply", "--cached", "--3way", "--binary", "--whitespace=nowarn", "-",
                given=git.Given(text=patch, variables=index))  # fmt: skip
        tree = git.git(mirror, "write-tree", given=indexed)
    message = git.Given(text=_message(row).encode(), variables=who)
    return git.git(mirror, "commit-tree", tree, "-p", parent, given=message)


def push(mirror: Path, commit: str, target: Target) -> None:
    """Push a commit to the branch of a job, unless it is there.

    Raises:
        UsageError: the branch has other commits, is protected, or the token may not push.
        InfrastructureError: the repository cannot be reached.
    """
    address, ref = target.source.address, f"refs/heads/{target.branch}"
    allowed = access_to(target.source).given(address)
    try:
        there = git.talk(mirror, "ls-remote", "--", address, ref, given=allowed).partition("\t")[0]
        if there == commit:
            return
        if there != (target.parent or ""):
            raise UsageError(
                f"the branch {target.branch} has other commits ({there[:12] or 'it was removed'}), "
                "and they are left as they are: rename or remove it, and run the job again"
            )
        git.talk(
            mirror, "push", "--quiet", f"--force-with-lease={ref}:{there}", "--", address,
            f"{commit}:{ref}", given=allowed,
        )  # fmt: skip
    except RepositoryError as error:
        raise _explained(str(error)[-400:], target) from None


def head_of(source: RepositorySource, mirror: Path, branch: str) -> str:
    """Return the commit of a branch in the repository now, or '' if there is none.

    Raises:
        InfrastructureError: the repository cannot be reached.
    """
    allowed = access_to(source).given(source.address)
    try:
        found = git.talk(
            mirror, "ls-remote", "--", source.address, f"refs/heads/{branch}", given=allowed
        )
    except RepositoryError as error:
        raise InfrastructureError(f"{source.address} cannot be reached: {error}") from None
    return found.partition("\t")[0]


def _message(row: Row) -> str:
    made = f"Made by arm {row['arm']} of job {row['job_id']} of Durabench."
    return f"{quote_title(row['title'])}\n\n{made}\n"


def _explained(said: str, target: Target) -> Exception:
    if _PROTECTED.search(said):
        return UsageError(
            f"{target.source.address} protects the branch {target.branch} or refuses the commit: "
            f"allow branches durabench/* ({said})"
        )
    if is_refused(said):
        return UsageError(
            f"{target.source.address} does not let this user push: set {TOKEN} to a token that may "
            f"write to it, or use ssh ({said})"
        )
    return InfrastructureError(
        f"the push to {target.source.address} failed: {said}; run again to continue"
    )
