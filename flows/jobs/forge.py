"""Issues and pull requests of a forge with GitHub's REST API."""

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from agent.errors import InfrastructureError
from eval.errors import DatasetError
from eval.repositories import RepositorySource
from flows.display.errors import UsageError
from flows.jobs.request import TOKEN, access_to, api_of

if TYPE_CHECKING:
    from github import GithubException
    from github.Repository import Repository

T = TypeVar("T")

_TIMEOUT_S = 30
_RETRIES = 3


def read_issue(source: RepositorySource) -> tuple[str, str]:
    """Return the title and the body of the issue that a source names.

    Raises:
        DatasetError: there is no such issue, or the token cannot read it.
        InfrastructureError: the forge does not answer.
    """
    number = source.issue
    assert number is not None

    def read(repository: "Repository") -> tuple[str, str]:
        issue = repository.get_issue(number)
        return issue.title, issue.body or ""

    return _call(source, read, f"the issue {source.web}/{source.name}/issues/{number}")


def check(source: RepositorySource, pull_request: str | None) -> None:
    """Check that the token may open a pull request, and that an earlier one is still open.

    Raises:
        DatasetError, UsageError: it may not, or the pull request was merged or closed.
        InfrastructureError: the forge does not answer.
    """

    def ask(repository: "Repository") -> None:
        rights = repository.permissions
        if rights is not None and not rights.push:
            raise UsageError(
                f"the user of the token in {TOKEN} may not write to {source.name}: give it the "
                "right to, or use --patch"
            )
        if repository.archived:
            raise UsageError(f"{source.name} is archived on its forge: use --patch")
        if pull_request is None:
            return
        pull = repository.get_pull(_number_of(pull_request))
        if pull.state != "open":
            end = "merged" if pull.merged else "closed"
            raise UsageError(f"{pull_request} is {end}, so nothing is added to it: run a new job")

    if not access_to(source).token:
        raise UsageError(f"a pull request needs a token: set {TOKEN}")
    _call(source, ask, f"the repository {source.name}")


def read_comments(source: RepositorySource, pull_request: str, since: datetime) -> list[str]:
    """Return what the repository's own people say about a pull request since a time, in order.

    Raises:
        DatasetError, UsageError: the token cannot read it.
        InfrastructureError: the forge does not answer.
    """
    from github import UnknownObjectException

    number = _number_of(pull_request)

    def read(repository: "Repository") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for kind in ("pulls/{}/reviews", "pulls/{}/comments", "issues/{}/comments"):
            address = f"{repository.url}/{kind.format(number)}?per_page={_COMMENTS}"
            with suppress(UnknownObjectException):  # a forge without such comments
                found += repository.requester.requestJsonAndCheck("GET", address)[1]
        return found

    found = _call(source, read, f"the pull request {pull_request}")
    said = sorted((_read_time(comment), _quote(comment)) for comment in found if _counts(comment))
    return [text for at, text in said if at > since]


_COMMENTS = 100
"""Comments of a kind that are read, the maximum of one answer."""
_OWN_PEOPLE = ("OWNER", "MEMBER", "COLLABORATOR")


def _counts(comment: dict[str, Any]) -> bool:
    """Return True for a text of the repository's own people, where the forge says who they are."""
    return bool(comment.get("body")) and comment.get("author_association") in _OWN_PEOPLE


def _read_time(comment: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(comment.get("submitted_at") or comment["created_at"])


def _quote(comment: dict[str, Any]) -> str:
    line = f":{comment['line']}" if comment.get("line") else ""
    place = f"{comment['path']}{line}: " if comment.get("path") else ""
    return f"{place}{comment['body'].strip()}"


def _number_of(pull_request: str) -> int:
    """Return the number at the end of the address of a pull request."""
    return int(pull_request.rstrip("/").rpartition("/")[2])


def pull_request(source: RepositorySource, branch: str, base: str, title: str, body: str) -> str:
    """Return the address of the pull request of a branch. Open a draft if there is none.

    It is open at once if the repository cannot have drafts. An existing one gets the new text.

    Raises:
        DatasetError, UsageError: the forge refuses it.
        InfrastructureError: the forge does not answer.
    """
    from github import GithubException

    def update(repository: "Repository") -> str | None:
        head = f"{source.name.partition('/')[0]}:{branch}"
        for pull in repository.get_pulls(state="all", head=head):
            if pull.body != body:
                pull.edit(body=body)
            return str(pull.html_url)
        return None

    def open_one(repository: "Repository", *, draft: bool = True) -> str:
        if address := update(repository):
            return address
        try:
            pull = repository.create_pull(
                base=base, head=branch, title=title, body=body, draft=draft
            )
        except GithubException as error:
            if error.status != 422:
                raise
            # Another run of the job may have opened it meanwhile.
            if address := update(repository):
                return address
            # No API says beforehand whether a repository may have drafts.
            if draft and "draft" in str(error.data).lower():
                return open_one(repository, draft=False)
            raise
        return str(pull.html_url)

    return _call(source, open_one, f"a pull request in {source.name}")


def _call(source: RepositorySource, call: Callable[["Repository"], T], what: str) -> T:
    """Return the forge's answer. Its errors say what to change."""
    import requests
    from github import Auth, Github, GithubException, GithubRetry, set_log_level

    set_log_level(logging.WARNING)  # it prints each refusal, which the error here explains
    token = access_to(source).token
    options: dict[str, Any] = {"auth": Auth.Token(token)} if token else {}
    retry = GithubRetry(total=_RETRIES)
    with Github(
        base_url=api_of(source),
        timeout=_TIMEOUT_S,
        retry=retry,
        seconds_between_writes=0,
        lazy=True,
        **options,
    ) as client:
        try:
            return call(client.get_repo(source.name))
        except GithubException as error:
            raise _explain(error, what) from None
        except requests.RequestException as error:
            raise InfrastructureError(
                f"{api_of(source)} does not answer: {type(error).__name__}; run again to continue"
            ) from None


def _explain(error: "GithubException", what: str) -> Exception:
    """Return an error with the forge's own words."""
    data, status = error.data if isinstance(error.data, dict) else {}, error.status
    details = [detail.get("message") or detail.get("code") for detail in data.get("errors") or []]
    messages = [str(text) for text in (data.get("message"), *details) if text]
    message = " ".join("; ".join(messages).split())[:300]
    match status:
        case 401 | 403:
            return UsageError(
                f"the forge does not allow {what}: set {TOKEN} to a token that can ({message})"
            )
        case 404:
            return DatasetError(
                f"the forge has no {what.removeprefix('the ')}, or the token of {TOKEN} cannot "
                f"see it ({message})"
            )
        case 422:
            return UsageError(f"the forge refuses {what}: {message}")
        case _:
            return InfrastructureError(
                f"the forge answers {status} to {what}: {message}; run again to continue"
            )
