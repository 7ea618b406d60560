"""Publish the commit of a job: a branch and a draft pull request, each at most once.

Every step finds what an earlier run did: the branch is at the commit, and the pull request of the
branch is looked up before one is opened.
"""

from pathlib import Path

from eval import repositories
from eval.repositories import RepositorySource
from flows.display.errors import UsageError
from flows.jobs import body, commits, forge, rows
from flows.jobs.commits import Target
from flows.jobs.request import Request, slug
from flows.jobs.request import forge as own_forge
from flows.storage.lake import Lake, Row
from reports.quoting import quote_title


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
    commits.push(mirror, row["commit"], target)
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
    now = commits.head_of(source, mirror, base)
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
