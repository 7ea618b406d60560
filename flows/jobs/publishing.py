"""Publish the commit of a job: a branch and a draft pull request, each at most once.

Every step checks for the work of an earlier run: the branch has the commit, and the pull request
of the branch is looked up before one is opened. No commit of others is ever replaced.
"""

import re
from pathlib import Path

from agent.errors import InfrastructureError, one_line
from eval import git, repositories
from eval.errors import DatasetError, RepositoryError
from eval.repositories import OWN_REFS, RepositorySource, is_refused
from flows.display.errors import UsageError
from flows.display.terminal import say
from flows.jobs import body, commits, forge, rows
from flows.jobs.forges.protocol import LABEL
from flows.jobs.request import TOKEN, Request, access_to, slug
from flows.jobs.request import forge as forge_address
from flows.storage.images import cache_folder
from flows.storage.lake import Lake, Row
from reports.quoting import quote_text, quote_title

_MOST_CHARACTERS = 500
"""Characters of a reason in a comment."""
_PROTECTED = re.compile(r"protected branch|GH006|GH013|pre-receive hook declined", re.IGNORECASE)


def check(request: Request, source: RepositorySource, row: Row, mirror: Path) -> None:
    """Check before the work whether its patch can be published as requested.

    Nothing is written: git only asks whether a push would be allowed.

    Raises:
        DatasetError, UsageError: it cannot; the message says what to change.
        InfrastructureError: the repository or its forge cannot be reached.
    """
    if request.publish == "patch" or row["state"] == "done":
        return
    is_draft, branch = request.publish == "pull_request", _branch_of(row)
    target = _on_forge(source) if is_draft else source
    heads = _read_heads(target, mirror, branch)
    if is_draft:
        base, _ = _find_base(request, target, row, mirror)
        forge.check(target, row["pull_request"], "" if branch in heads else branch, base)
    if branch in heads and not row["revises"]:
        _find_own(mirror, target, row, branch, heads[branch])
    _push(mirror, target, row["base_commit"], branch, "--dry-run", "--force")


def publish(lake: Lake, row: Row, request: Request, source: RepositorySource, mirror: Path) -> Row:
    """Publish the commit in the row of a job. Return the new row.

    Raises:
        DatasetError, UsageError: the repository or its forge refuses it. The message says what to
            change, and running the job again continues here.
        InfrastructureError: the repository or its forge cannot be reached.
    """
    if request.publish == "patch":
        return row
    is_draft, branch = request.publish == "pull_request", _branch_of(row)
    target = _on_forge(source) if is_draft else source
    base, head = _find_base(request, target, row, mirror) if is_draft else (row["base_branch"], "")
    commit = _push_on_top(mirror, target, row, branch)
    row = rows.update(lake, row, branch=branch, commit=commit, base_branch=base)
    if not is_draft:
        return row
    moved_to = head if head != row["base_commit"] and not row["revises"] else ""
    title, text = quote_title(row["title"]), body.body(row, moved_to)
    address = forge.pull_request(target, branch, base, title, text)
    return rows.update(lake, row, pull_request=address)


def answer(row: Row, request: Request, source: RepositorySource) -> None:
    """Comment the answer of a job that changed nothing, if it is about an issue or pull request."""
    pull = request.asked_on or row["pull_request"]
    number = forge.number_of(pull) if pull else source.issue
    if request.publish == "pull_request" and number:
        is_pull = bool(pull) and "/issues/" not in pull
        _comment(row["job_id"], _on_forge(source), number, body.body(row, ""), is_pull=is_pull)


def comment_failure(request: Request, reason: str) -> None:
    """Comment why a job failed where a person asked for it on a forge."""
    _comment_asked(request, f"failed: {quote_text(forge.cut(reason, _MOST_CHARACTERS))}")


def comment_question(request: Request, wanted: str, question: str) -> None:
    """Comment what a job waits for, and how to answer, where a person asked for it on a forge.

    `question` is in Markdown.
    """
    how = f"`@{LABEL} approve`" if wanted == "approval" else f"`@{LABEL}` and the answer"
    _comment_asked(request, f"waits for your {wanted}: comment {how}.\n\n{question}")


def _comment_asked(request: Request, text: str) -> None:
    if request.asked_on is None:
        return
    page, kind, number = request.asked_on.rsplit("/", 2)
    source = repositories.source(page, forge_address())
    whole = f"Job `{request.job_id}` {text}"
    _comment(request.job_id, source, int(number), whole, is_pull=kind == "pull")


def _comment(
    job_id: str, source: RepositorySource, number: int, text: str, *, is_pull: bool
) -> None:
    """Comment on an issue or pull request. The forge may refuse that: the row has the text."""
    try:
        forge.comment(source, number, text, is_pull=is_pull)
    except (DatasetError, UsageError, InfrastructureError) as error:
        say(f"job {job_id}: no comment on #{number}: {one_line(error)}")


def read_branch(source: RepositorySource, row: Row, mirror: Path) -> str | None:
    """Return the head of the branch of a published job, fetched; None if it was removed."""
    target = _on_forge(source) if row["pull_request"] else source
    head = _read_heads(target, mirror, row["branch"]).get(row["branch"])
    if head is not None:
        _fetch(mirror, target, row["branch"], row)
    return head


def read_comments(source: RepositorySource, row: Row) -> list[str]:
    """Return the comments on the pull request of a job since it was submitted; [] without one."""
    if not row["pull_request"]:
        return []
    return forge.read_comments(_on_forge(source), row["pull_request"], row["submitted_at"])


def _branch_of(row: Row) -> str:
    return str(row["branch"] or f"durabench/{slug(row['title'])}-{row['job_id']}")


def _on_forge(source: RepositorySource) -> RepositorySource:
    """Return the repository on its forge. A local clone leads to its origin."""
    origin = repositories.origin(source, forge_address())
    if origin is None or origin.web is None:
        raise UsageError(
            f"{source.address} is not on a forge, so there can be no pull request: use --branch or "
            "--patch"
        )
    return origin


def _find_base(
    request: Request, target: RepositorySource, row: Row, mirror: Path
) -> tuple[str, str]:
    """Return the branch to merge into, with its head. The default branch may have a new name.

    Raises:
        UsageError: the branch does not exist, or the pull request was merged or closed.
    """
    name = row["base_branch"]
    if row["pull_request"]:
        name = forge.read_base(target, row["pull_request"])
    if name is None:
        raise UsageError(
            "a pull request needs a branch to merge into, and the job starts at a tag or a commit: "
            "name a branch with --ref"
        )
    heads = _read_heads(target, mirror, name)
    if not heads and request.ref is None and not row["pull_request"]:
        fresh = repositories.fetch_mirror(target, cache_folder(), access_to(target))
        name = repositories.base(fresh, None).branch or name
        heads = _read_heads(target, mirror, name)
    if not heads:
        raise UsageError(f"{target.address} has no branch {name} to merge into")
    return name, heads[name]


def _push_on_top(mirror: Path, target: RepositorySource, row: Row, branch: str) -> str:
    """Push the commit of a job to its branch, unless it is there. Return the commit.

    On commits that others have added meanwhile, the patch is committed again.
    """
    while True:
        head, commit = _read_heads(target, mirror, branch).get(branch), str(row["commit"])
        if head is not None:
            if own := _find_own(mirror, target, row, branch, head):
                return own
            if head != row["base_commit"]:
                try:
                    commit = commits.commit_on(mirror, head, row)
                except RepositoryError:
                    raise UsageError(
                        f"others have changed the same lines on the branch {branch} meanwhile: "
                        "revise the job again"
                    ) from None
        try:
            _push(mirror, target, commit, branch)
        except InfrastructureError:
            if _read_heads(target, mirror, branch).get(branch) == head:
                raise
        else:
            return commit


def _find_own(
    mirror: Path, target: RepositorySource, row: Row, branch: str, head: str
) -> str | None:
    """Return the commit of a job that is on its branch already, or None.

    Raises:
        UsageError: the branch of a new job has commits of others.
    """
    _fetch(mirror, target, branch, row)
    own = commits.find(mirror, row, head)
    if own is None and not row["revises"]:
        raise UsageError(
            f"the branch {branch} has other commits ({head[:12]}), and they are left as they are: "
            "rename or remove it, and run the job again"
        )
    return own


def _push(mirror: Path, target: RepositorySource, commit: str, branch: str, *options: str) -> None:
    """Push a commit to a branch that has no other commits."""
    address = target.address
    allowed = access_to(target).get_git_settings(address)
    try:
        git.talk(mirror, "push", "--quiet", *options, "--", address,
                 f"{commit}:refs/heads/{branch}", settings=allowed)  # fmt: skip
    except RepositoryError as error:
        raise _explain(str(error)[-400:], address, branch) from None


def _explain(message: str, address: str, branch: str) -> Exception:
    """Return why a push was refused."""
    if _PROTECTED.search(message):
        return UsageError(
            f"{address} protects the branch {branch} or refuses the commit: allow branches "
            f"durabench/* ({message})"
        )
    if is_refused(message):
        return UsageError(
            f"{address} does not let this user push: set {TOKEN} to a token that can write to "
            f"it, or use ssh ({message})"
        )
    return InfrastructureError(f"the push to {address} failed: {message}; run again to continue")


def _read_heads(source: RepositorySource, mirror: Path, *branches: str) -> dict[str, str]:
    """Return the commits of those branches that the repository has now."""
    allowed = access_to(source).get_git_settings(source.address)
    refs = [f"refs/heads/{branch}" for branch in branches]
    try:
        output = git.talk(mirror, "ls-remote", "--", source.address, *refs, settings=allowed)
    except RepositoryError as error:
        raise InfrastructureError(f"{source.address} cannot be reached: {error}") from None
    found = {ref: commit for commit, _, ref in (x.partition("\t") for x in output.splitlines())}
    return {name: found[ref] for name, ref in zip(branches, refs, strict=True) if ref in found}


def _fetch(mirror: Path, target: RepositorySource, branch: str, row: Row) -> None:
    """Fetch a branch of the forge, which a local clone may lack."""
    allowed = access_to(target).get_git_settings(target.address)
    own = f"{OWN_REFS}/head-{row['job_id']}"
    try:
        git.talk(mirror, "fetch", "--quiet", "--no-write-fetch-head", "--", target.address,
                 f"+refs/heads/{branch}:{own}", settings=allowed)  # fmt: skip
    except RepositoryError as error:
        raise InfrastructureError(f"{target.address} cannot be reached: {error}") from None
