"""Publish the commit of a job: a branch and a draft pull request, each at most once.

Every step checks for the work of an earlier run: the branch is at the commit, and the pull request
of the branch is looked up before one is opened.
"""

import re
from pathlib import Path

from agent.errors import InfrastructureError
from eval import git, repositories
from eval.errors import RepositoryError
from eval.repositories import RepositorySource, is_refused
from flows.display.errors import UsageError
from flows.jobs import body, forge, rows
from flows.jobs.request import TOKEN, Request, access_to, slug
from flows.jobs.request import forge as forge_address
from flows.storage.lake import Lake, Row
from reports.quoting import quote_title

_PROTECTED = re.compile(r"protected branch|GH006|GH013|pre-receive hook declined", re.IGNORECASE)


def check(request: Request, source: RepositorySource, row: Row) -> None:
    """Check before the work whether its patch can be published as requested.

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
    is_draft = request.publish == "pull_request"
    target = _on_forge(source) if is_draft else source
    branch, parent = f"durabench/{slug(row['title'])}-{row['job_id']}", None
    revised = rows.read(lake, row["revises"]) if row["revises"] else None
    if revised is not None and revised["branch"]:
        branch, parent = revised["branch"], revised["commit"]
    _push(mirror, row["commit"], target, branch, parent)
    row = rows.update(lake, row, branch=branch)
    if not is_draft:
        return row
    base = _base_branch(row)
    head = _read_head(target, mirror, base)
    moved_to = head if head != row["base_commit"] and not row["revises"] else ""
    title, text = quote_title(row["title"]), body.body(row, moved_to)
    address = forge.pull_request(target, branch, base, title, text)
    return rows.update(lake, row, pull_request=address)


def _on_forge(source: RepositorySource) -> RepositorySource:
    """Return the repository on its forge. A local clone leads to its origin."""
    origin = repositories.origin(source, forge_address())
    if origin is None or origin.web is None:
        raise UsageError(
            f"{source.address} is not on a forge, so there can be no pull request: use --branch or "
            "--patch"
        )
    return origin


def _base_branch(row: Row) -> str:
    if row["base_branch"] is None:
        raise UsageError(
            "a pull request needs a branch to merge into, and the job starts at a tag or a commit: "
            "name a branch with --ref"
        )
    return str(row["base_branch"])


def _push(
    mirror: Path, commit: str, target: RepositorySource, branch: str, parent: str | None
) -> None:
    """Push a commit to a branch, unless it is there. `parent` is the head of an earlier job."""
    address, ref = target.address, f"refs/heads/{branch}"
    allowed = access_to(target).get_git_settings(address)
    try:
        head = git.talk(mirror, "ls-remote", "--", address, ref, settings=allowed).partition("\t")[
            0
        ]
        if head == commit:
            return
        if head != (parent or ""):
            raise UsageError(
                f"the branch {branch} has other commits ({head[:12] or 'it was removed'}), "
                "and they are left as they are: rename or remove it, and run the job again"
            )
        git.talk(
            mirror, "push", "--quiet", f"--force-with-lease={ref}:{head}", "--", address,
            f"{commit}:{ref}", settings=allowed,
        )  # fmt: skip
    except RepositoryError as error:
        message = str(error)[-400:]
        if _PROTECTED.search(message):
            problem = (
                f"{address} protects the branch {branch} or refuses the commit: allow branches "
                f"durabench/* ({message})"
            )
        elif is_refused(message):
            problem = (
                f"{address} does not let this user push: set {TOKEN} to a token that can write to "
                f"it, or use ssh ({message})"
            )
        else:
            raise InfrastructureError(
                f"the push to {address} failed: {message}; run again to continue"
            ) from None
        raise UsageError(problem) from None


def _read_head(source: RepositorySource, mirror: Path, branch: str) -> str:
    """Return the commit of a branch in the repository now, or '' if there is none."""
    allowed, ref = access_to(source).get_git_settings(source.address), f"refs/heads/{branch}"
    try:
        output = git.talk(mirror, "ls-remote", "--", source.address, ref, settings=allowed)
    except RepositoryError as error:
        raise InfrastructureError(f"{source.address} cannot be reached: {error}") from None
    return output.partition("\t")[0]
