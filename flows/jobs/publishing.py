"""Publish the commit of a job: a branch and a draft pull request, each at most once.

Every step finds what an earlier run did: the branch is at the commit, and the pull request of the
branch is looked up before one is opened.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from agent.errors import InfrastructureError
from eval import git, repositories
from eval.errors import RepositoryError
from eval.repositories import RepositorySource, is_refused
from flows.display.errors import UsageError
from flows.jobs import body, forge, rows
from flows.jobs.request import TOKEN, Request, access_to, slug
from flows.jobs.request import forge as own_forge
from flows.storage.lake import Lake, Row
from reports.quoting import quote_title

_PROTECTED = re.compile(r"protected branch|GH006|GH013|pre-receive hook declined", re.IGNORECASE)


@dataclass(frozen=True)
class Target:
    """The branch that a job pushes to."""

    source: RepositorySource
    branch: str
    parent: str | None
    """The commit of the branch before the push; None if there is no such branch yet."""


def check(request: Request, source: RepositorySource, row: Row) -> None:
    """Check ahead of the work whether its patch can be published as requested.

    Raises:
        UsageError: there can be no pull request.
    """
    if request.publish == "pull_request":
        _on_forge(source)
        _base_branch(row)


def publish(lake: Lake, row: Row, request: Request, source: RepositorySource, mirror: Path) -> Row:
    """Publish the commit in the row of a job. Return the new row.

    Raises:
        DatasetError, UsageError: the repository or its forge refuses it. The message says what to
            change, and running the job again continues here.
        InfrastructureError: the repository or its forge cannot be reached.
    """
    if request.publish == "patch":
        return row
    target = _target(lake, row, request, source)
    _push(mirror, row["commit"], target)
    row = rows.update(lake, row, branch=target.branch)
    if request.publish == "branch":
        return row
    return rows.update(lake, row, pull_request=_pull_request(row, target.source, mirror))


def _target(lake: Lake, row: Row, request: Request, source: RepositorySource) -> Target:
    own = f"durabench/{slug(row['title'])}-{row['job_id']}"
    where = _on_forge(source) if request.publish == "pull_request" else source
    parent = rows.read(lake, row["revises"]) if row["revises"] else None
    if parent is not None and parent["branch"]:
        return Target(where, parent["branch"], parent["commit"])
    return Target(where, own, None)


def _on_forge(source: RepositorySource) -> RepositorySource:
    """Return the repository on its forge. A local one leads to the one it was cloned from."""
    found = repositories.origin(source, own_forge())
    if found is None or found.web is None:
        raise UsageError(
            f"{source.address} is on no forge, so there can be no pull request: use --branch or "
            "--patch"
        )
    return found


def _pull_request(row: Row, source: RepositorySource, mirror: Path) -> str:
    base = _base_branch(row)
    now = _read_head(source, mirror, base)
    moved = now if now != row["base_commit"] and not row["revises"] else ""
    draft = forge.Draft(row["branch"], base, quote_title(row["title"]), body.body(row, moved))
    return forge.pull_request(source, draft)


def _base_branch(row: Row) -> str:
    if row["base_branch"] is None:
        raise UsageError(
            "a pull request needs a branch to merge into, and the job begins at a tag or a commit: "
            "name a branch with --ref"
        )
    return str(row["base_branch"])


def _push(mirror: Path, commit: str, target: Target) -> None:
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


def _read_head(source: RepositorySource, mirror: Path, branch: str) -> str:
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
