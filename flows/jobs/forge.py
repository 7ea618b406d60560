"""Issues and pull requests of a repository, on any forge."""

from datetime import datetime

from eval.repositories import RepositorySource
from flows.display.errors import UsageError
from flows.jobs.forges import kinds
from flows.jobs.forges.gitlab import find_path
from flows.jobs.forges.protocol import SIGN, Forge
from flows.jobs.request import TOKEN, access_to, api_of, kind_of


def connect(source: RepositorySource) -> Forge:
    """Return a repository on its forge, with the token of the environment or of the job."""
    return kinds.connect(source, kind_of(source), api_of(source), access_to(source).token)


def read_issue(source: RepositorySource) -> tuple[str, str]:
    """Return the title and the text of the issue that a source names.

    Raises:
        DatasetError: the issue does not exist, or the token cannot read it.
        InfrastructureError: the forge does not answer.
    """
    assert source.issue is not None
    issue = connect(source).read_issue(source.issue)
    return issue.title, issue.text


def check(source: RepositorySource, pull_request: str | None, branch: str, base: str) -> None:
    """Check that the token may open a pull request, and that an earlier one is still open.

    A `branch` that does not exist so far is asked about, as nothing can be opened for it.

    Raises:
        DatasetError, UsageError: it may not, or the pull request was merged or closed.
        InfrastructureError: the forge does not answer.
    """
    if not access_to(source).token:
        raise UsageError(f"a pull request needs a token: set {TOKEN}")
    forge = connect(source)
    match forge.read_rights():
        case "archived":
            raise UsageError(f"{source.name} is archived on its forge: use --patch")
        case "read":
            raise UsageError(
                f"the user of the token in {TOKEN} may not write to {source.name}: give it the "
                "right to, or use --patch"
            )
    if pull_request is not None:
        read_base(source, pull_request)
    elif branch:
        forge.publish(branch, base, f"{forge.limits.draft}{branch}"[:100], "", is_trial=True)


def read_base(source: RepositorySource, pull_request: str) -> str:
    """Return the branch that a pull request is to be merged into.

    Raises:
        DatasetError, UsageError: it was merged or closed.
        InfrastructureError: the forge does not answer.
    """
    pull = connect(source).read_pull(number_of(pull_request))
    if pull.state != "open":
        raise UsageError(
            f"{pull_request} is {pull.state}, so nothing is added to it: run a new job"
        )
    return pull.base


def read_comments(source: RepositorySource, pull_request: str, since: datetime) -> list[str]:
    """Return what the repository's own people say about a pull request since a time, in order.

    Raises:
        DatasetError, UsageError: the token cannot read it.
        InfrastructureError: the forge does not answer.
    """
    said = connect(source).read_comments(number_of(pull_request), since)
    return [text for text in said if SIGN not in text]


def pull_request(source: RepositorySource, branch: str, base: str, title: str, body: str) -> str:
    """Return the address of the pull request of a branch, with this text. Open a draft without one.

    Raises:
        DatasetError, UsageError: the forge refuses it.
        InfrastructureError: the forge does not answer.
    """
    forge = connect(source)
    limits = forge.limits
    whole = cut(f"{limits.draft}{title}", limits.title)
    return forge.publish(branch, base, whole, cut(body, limits.body))


def comment(source: RepositorySource, number: int, text: str, *, is_pull: bool) -> None:
    """Comment on an issue or a pull request as a job.

    Raises:
        DatasetError, UsageError, InfrastructureError: the forge refuses it, or does not answer.
    """
    forge = connect(source)
    whole = f"{cut(text, forge.limits.body - len(SIGN) - 2)}\n\n{SIGN}"
    forge.comment(number, whole, is_pull=is_pull)


def cut(text: str, most: int) -> str:
    """Return a text with at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def number_of(pull_request: str) -> int:
    """Return the number at the end of the address of a pull request."""
    return int(pull_request.rstrip("/").rpartition("/")[2])


def find_page(source: RepositorySource) -> str:
    """Return the address of a repository's page, however it is fetched."""
    return f"{source.web}/{find_path(source)}"


def is_pull_of(source: RepositorySource, pull_request: str | None, number: int = 0) -> bool:
    """Return True for the address of a pull request of a repository, with this number if any."""
    is_there = (pull_request or "").lower().startswith(f"{find_page(source)}/".lower())
    return is_there and (not number or number_of(pull_request or "") == number)
