"""GitHub and GitHub Enterprise."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import quote

from eval.repositories import RepositorySource
from flows.display.errors import UsageError
from flows.jobs.forges.protocol import (
    LABEL,
    CommitChecks,
    Event,
    FailedCheck,
    Issue,
    PullRequest,
    Rights,
    TextLimits,
    find_mention,
    quote_comment,
    read_time,
)
from flows.jobs.forges.rest import Rest, read_message

_MAY_WRITE = ("owner", "admin", "maintain", "write")
_OWN_PEOPLE = ("OWNER", "MEMBER", "COLLABORATOR")
_FAILED = ("failure", "timed_out", "startup_failure", "error")
_PULL = re.compile(r"/pulls?/\d+")
_CI = ("check_suite", "check_run", "workflow_run", "workflow_job", "status")


class GitHub:
    """A repository on GitHub."""

    limits: TextLimits = TextLimits(title=256, body=65_536)
    _scheme = "Bearer"
    _no_branch: ClassVar[tuple[int, ...]] = (422,)
    """Statuses of the refusal of a branch that does not exist."""
    _page: ClassVar[dict[str, int]] = {"per_page": 100}

    def __init__(self, source: RepositorySource, api: str, token: str) -> None:
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = f"{self._scheme} {token}"
        self._rest = Rest(api, headers)
        self._name, self._path = source.name, f"/repos/{source.name}"
        self._web = f"{source.web}/{source.name}"

    def read_rights(self, user: str = "") -> Rights:
        """Return the rights of a user, by default of the token."""
        if user:
            path = f"{self._path}/collaborators/{quote(user, safe='')}/permission"
            found = self._rest.find(path, f"to see who may write to {self._name}") or {}
            return "write" if found.get("permission") in _MAY_WRITE else "read"
        repository = self._rest.get(self._path, f"the repository {self._name}")
        if repository.get("archived"):
            return "archived"
        if repository.get("has_pull_requests") is False:
            raise UsageError(f"{self._name} has no pull requests: enable them, or use --branch")
        rights = repository.get("permissions")
        return "write" if rights is None or rights.get("push") else "read"

    def read_issue(self, number: int) -> Issue:
        """Return an issue."""
        found = self._rest.get(
            f"{self._path}/issues/{number}", f"the issue {self._web}/issues/{number}"
        )
        return Issue(found["title"], found.get("body") or "")

    def read_pull(self, number: int) -> PullRequest:
        """Return a pull request."""
        what = f"the pull request {number} in {self._name}"
        found = self._rest.get(f"{self._path}/pulls/{number}", what)
        head = found.get("head") or {}
        home = (head.get("repo") or {}).get("full_name", self._name)
        return PullRequest(
            "merged" if found.get("merged") else "open" if found["state"] == "open" else "closed",
            head.get("ref", ""),
            head.get("sha", ""),
            home.lower() != self._name.lower(),
            found.get("title") or "",
            found.get("body") or "",
            found["base"]["ref"],
        )

    def read_comments(self, number: int, since: datetime) -> list[str]:
        """Return what the repository's own people say about a pull request, in order."""
        own = [
            (read_time(each.get("submitted_at") or each["created_at"]), each)
            for each in self._list_comments(number)
            if each.get("body") and self._is_own(each)
        ]
        return [
            quote_comment(each["body"], each.get("path"), self._line_of(each))
            for at, each in sorted(own, key=lambda pair: pair[0])
            if at > since
        ]

    def _list_comments(self, number: int) -> Iterator[dict[str, Any]]:
        what = f"the comments of pull request {number} in {self._name}"
        for kind in (f"pulls/{number}/reviews", f"pulls/{number}/comments"):
            yield from self._rest.list_all(f"{self._path}/{kind}", what, **self._page)
        yield from self._rest.list_all(f"{self._path}/issues/{number}/comments", what, **self._page)

    def _is_own(self, comment: dict[str, Any]) -> bool:
        return comment.get("author_association") in _OWN_PEOPLE

    def _line_of(self, comment: dict[str, Any]) -> int | None:
        return comment.get("line")

    def publish(
        self, branch: str, base: str, title: str, body: str, *, is_trial: bool = False
    ) -> str:
        """Return the address of the pull request of a branch. Without one, open a draft.

        It is open at once if the repository cannot have drafts. Only a trial shows the rights of a
        fine-grained token.
        """
        what = f"a pull request in {self._name}"
        content = {"base": base, "head": branch, "title": title, "body": body, "draft": True}
        if is_trial:
            answer = self._rest.ask("POST", f"{self._path}/pulls", content)
            if answer.status_code not in self._no_branch:
                self._rest.check(answer, what)
            return ""
        while True:
            if found := self._find_pull(branch, base):
                if found.get("body") != body:
                    path = f"{self._path}/pulls/{found['number']}"
                    self._rest.send("PATCH", path, what, {"body": body})
                return str(found["html_url"])
            answer = self._rest.ask("POST", f"{self._path}/pulls", content)
            if answer.status_code in (409, 422):
                # Another run of the job may have opened it meanwhile.
                if self._find_pull(branch, base):
                    continue
                # No API says beforehand whether a repository may have drafts.
                if content["draft"] and "draft" in read_message(answer).lower():
                    content["draft"] = False
                    continue
            return str(self._rest.check(answer, what).json()["html_url"])

    def _find_pull(self, branch: str, base: str) -> dict[str, Any] | None:
        del base  # a branch has one pull request
        head = f"{self._name.partition('/')[0]}:{branch}"
        found = self._rest.get(
            f"{self._path}/pulls", f"a pull request in {self._name}", state="all", head=head
        )
        return found[0] if found else None

    def comment(self, number: int, text: str, *, is_pull: bool) -> None:
        """Comment on an issue or a pull request, which have one list of comments."""
        del is_pull
        path, what = f"{self._path}/issues/{number}/comments", f"a comment in {self._name}"
        self._rest.send("POST", path, what, {"body": text})

    def read_checks(self, commit: str) -> CommitChecks:
        """Return what CI says about a commit: check runs and statuses."""
        path, what = f"{self._path}/commits/{commit}", f"the checks of {self._name}"
        runs = (self._rest.find(f"{path}/check-runs", what, **self._page) or {}).get("check_runs")
        statuses = (self._rest.find(f"{path}/status", what) or {}).get("statuses")
        failed = [
            FailedCheck(run["name"], self._read_log(run))
            for run in runs or []
            if run.get("conclusion") in _FAILED
        ]
        states = [(each.get("state") or each.get("status"), each) for each in statuses or []]
        failed += [
            FailedCheck(each["context"], each.get("description") or "")
            for state, each in states
            if state in _FAILED
        ]
        is_pending = any(run.get("status") != "completed" for run in runs or [])
        is_pending |= any(state == "pending" for state, _ in states)
        return CommitChecks(is_pending, tuple(failed))

    def _read_log(self, run: dict[str, Any]) -> str:
        """Return the log of a check run, which is a job of Actions, or else its summary."""
        if log := self._rest.read_text(f"{self._path}/actions/jobs/{run['id']}/logs"):
            return log
        output = run.get("output") or {}
        parts = (output.get(name) for name in ("title", "summary", "text"))
        return "\n\n".join(part for part in parts if part)

    def read_events(self, since: datetime) -> list[Event]:
        """Return labels and mentions since a time."""
        after, what = since.strftime("%Y-%m-%dT%H:%M:%SZ"), f"the issues of {self._name}"
        changed = self._rest.list_all(
            f"{self._path}/issues", what, since=after, state="open", **self._page
        )
        said = [each for each in changed if not each.get("pull_request")]
        for kind in ("issues/comments", "pulls/comments"):
            path = f"{self._path}/{kind}"
            said += self._rest.list_all(path, what, since=after, **self._page)
        found = [*map(self._read_mention, said), *self._list_labels(changed)]
        return [event for event in found if event is not None and event.at > since]

    def _read_mention(self, said: dict[str, Any]) -> Event | None:
        """Return the mention in an issue or a comment."""
        text = find_mention(said.get("body"))
        if text is None:
            return None
        address = said.get("pull_request_url") or said.get("issue_url") or said["url"]
        is_pull = bool(_PULL.search(f"{said.get('html_url')} {said.get('pull_request_url')}"))
        number = int(address.rpartition("/")[2])
        return Event(read_time(said["created_at"]), number, is_pull, said["user"]["login"], text)

    def _list_labels(self, changed: list[dict[str, Any]]) -> list[Event]:
        """Return who set the label. `changed` are issues and pull requests that may have it."""
        del changed  # one list has the latest events of all issues
        events = self._rest.get(
            f"{self._path}/issues/events", f"the issues of {self._name}", **self._page
        )
        return [
            Event(
                read_time(each["created_at"]),
                each["issue"]["number"],
                bool(each["issue"].get("pull_request")),
                (each.get("actor") or {}).get("login", ""),
            )
            for each in events
            if each.get("event") == "labeled" and each["label"]["name"] == LABEL and each["issue"]
        ]


def read_delivery(kind: str, payload: dict[str, Any]) -> Event | None:
    """Return the event of a webhook of GitHub or Gitea; None if it concerns no job.

    `kind` is the header with the name of the event.
    """
    if kind in _CI:
        return _read_ci(kind, payload)
    item = payload.get("issue") or payload.get("pull_request")
    if not item:
        return None
    is_pull = "pull_request" in payload or item.get("pull_request") is not None
    is_pull |= bool(payload.get("is_pull"))
    said = payload.get("comment") or payload.get("review") or item
    changed = item.get("updated_at")
    at = said.get("submitted_at") or said.get("created_at") or changed
    text: str | None = ""
    match payload.get("action"):
        case "labeled" if payload["label"]["name"] == LABEL:
            at = changed
        case "label_updated" if any(each["name"] == LABEL for each in item.get("labels") or []):
            at = changed
        case "created" | "submitted" | "reviewed":
            text = find_mention(said.get("body") or said.get("content"))
        case "opened" if not is_pull:
            text = find_mention(item.get("body"))
        case _:
            return None
    user = payload["sender"]["login"]
    return None if text is None else Event(read_time(at), item["number"], is_pull, user, text)


def _read_ci(kind: str, payload: dict[str, Any]) -> Event | None:
    """Return the event of a change of CI. Only its commit counts."""
    inner = payload.get(kind)
    commit = inner.get("head_sha") if isinstance(inner, dict) else payload.get("sha")
    return Event(datetime.now(UTC), commit=commit) if commit else None
