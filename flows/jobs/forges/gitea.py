"""Gitea and Forgejo, whose API mostly follows GitHub's."""

from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar
from urllib.parse import quote

from eval.repositories import RepositorySource
from flows.display.errors import UsageError
from flows.jobs.forges.github import GitHub
from flows.jobs.forges.protocol import (
    LABEL,
    CommitChecks,
    Event,
    FailedCheck,
    TextLimits,
    read_time,
)


class Gitea(GitHub):
    """A repository on Gitea or Forgejo.

    Only the token of an administrator of the repository sees the rights of other people.
    """

    limits = TextLimits(title=255, body=65_536, draft="WIP: ")
    _scheme = "token"
    _no_branch = (404, 409, 422)
    _page: ClassVar[dict[str, int]] = {"limit": 50}

    def __init__(self, source: RepositorySource, api: str, token: str) -> None:
        super().__init__(source, api, token)
        self._writes = cache(lambda user: self.read_rights(user) == "write")

    def _list_comments(self, number: int) -> Iterator[dict[str, Any]]:
        what = f"the comments of pull request {number} in {self._name}"
        reviews = f"{self._path}/pulls/{number}/reviews"
        for review in self._rest.list_all(reviews, what, **self._page):
            yield review
            if review.get("comments_count"):
                yield from self._rest.list_all(f"{reviews}/{review['id']}/comments", what)
        yield from self._rest.list_all(f"{self._path}/issues/{number}/comments", what, **self._page)

    def _is_own(self, comment: dict[str, Any]) -> bool:
        user = (comment.get("user") or {}).get("login", "")
        try:
            return user == self._name.partition("/")[0] or self._writes(user)
        except UsageError:
            return False

    def _line_of(self, comment: dict[str, Any]) -> int | None:
        return comment.get("position")

    def _find_pull(self, branch: str, base: str) -> dict[str, Any] | None:
        path = f"{self._path}/pulls/{quote(base, safe='')}/{branch}"
        found: dict[str, Any] | None = self._rest.find(path, f"a pull request in {self._name}")
        return found

    def read_checks(self, commit: str) -> CommitChecks:
        """Return what CI says about a commit, with the logs of Actions where the API has them."""
        checks = super().read_checks(commit)
        logs = list(self._read_logs(commit)) if checks.failed and not checks.is_pending else []
        failed = [
            FailedCheck(
                each.name, next((log for name, log in logs if log and name in each.name), each.log)
            )
            for each in checks.failed
        ]
        return CommitChecks(checks.is_pending, tuple(failed))

    def _read_logs(self, commit: str) -> Iterator[tuple[str, str]]:
        path, what = f"{self._path}/actions", f"the checks of {self._name}"
        runs = self._rest.find(f"{path}/runs", what, head_sha=commit) or {}
        for run in runs.get("workflow_runs") or []:
            jobs = self._rest.find(f"{path}/runs/{run['id']}/jobs", what) or {}
            for job in jobs.get("jobs") or []:
                if job.get("conclusion") == "failure":
                    yield job["name"], self._rest.read_text(f"{path}/jobs/{job['id']}/logs")

    def _list_labels(self, changed: list[dict[str, Any]]) -> list[Event]:
        found = []
        for issue in changed:
            if not any(label["name"] == LABEL for label in issue.get("labels") or []):
                continue
            path = f"{self._path}/issues/{issue['number']}/timeline"
            for each in self._rest.list_all(path, f"the issues of {self._name}", **self._page):
                label = each.get("label") or {}
                if (
                    each.get("type") == "label"
                    and each.get("body") == "1"
                    and label["name"] == LABEL
                ):
                    is_pull = bool(issue.get("pull_request"))
                    at, user = read_time(each["created_at"]), each["user"]["login"]
                    found.append(Event(at, issue["number"], is_pull, user))
        return found
