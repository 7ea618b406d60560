"""Issues and pull requests of a forge with GitHub's REST API."""

import logging
from collections.abc import Callable
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


def pull_request(source: RepositorySource, branch: str, base: str, title: str, body: str) -> str:
    """Return the address of the pull request of a branch. Open a draft if there is none.

    The text of an existing one is replaced.

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

    def open_one(repository: "Repository") -> str:
        if address := update(repository):
            return address
        try:
            pull = repository.create_pull(
                base=base, head=branch, title=title, body=body, draft=True
            )
        except GithubException as error:
            # Another run of the job may have opened it meanwhile.
            if error.status != 422 or not (address := update(repository)):
                raise
            return address
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
