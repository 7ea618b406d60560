"""GitLab, with merge requests for pull requests."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit

from eval.repositories import RepositorySource
from flows.display.errors import UsageError
from flows.jobs.forges.protocol import (
    LABEL,
    CommitChecks,
    Event,
    FailedCheck,
    Issue,
    PullRequest,
    PullState,
    Rights,
    TextLimits,
    find_mention,
    quote_comment,
    read_time,
)
from flows.jobs.forges.rest import Rest

_DEVELOPER = 30
"""The lowest level of access with which people push."""
_PENDING = ("created", "waiting_for_resource", "preparing", "pending", "running", "scheduled")
_STATES: dict[str, PullState] = {"opened": "open", "merged": "merged"}


class GitLab:
    """A project on GitLab, which may be in a group of groups."""

    limits = TextLimits(title=255, body=1_000_000, draft="Draft: ")

    def __init__(self, source: RepositorySource, api: str, token: str) -> None:
        self._rest = Rest(api, {"PRIVATE-TOKEN": token} if token else {})
        self._name = find_path(source)
        self._path = f"/projects/{quote(self._name, safe='')}"
        self._writes = cache(lambda user: self.read_rights(user) == "write")

    def read_rights(self, user: str = "") -> Rights:
        """Return the rights of a user, by default of the token."""
        if user:
            path, what = f"{self._path}/members/all", f"to see who may write to {self._name}"
            found = self._rest.list_all(path, what, query=user, per_page=100)
            levels = [each["access_level"] for each in found if each["username"] == user]
            return "write" if max(levels, default=0) >= _DEVELOPER else "read"
        project = self._rest.get(self._path, f"the repository {self._name}")
        if project.get("archived"):
            return "archived"
        access_level = project.get("merge_requests_access_level")
        if access_level == "disabled" or project.get("merge_requests_enabled") is False:
            raise UsageError(f"{self._name} has no merge requests: enable them, or use --branch")
        # Tokens of other kinds than personal ones have no such description.
        token = self._rest.ask("GET", "/personal_access_tokens/self")
        if token.is_success and "api" not in token.json().get("scopes", ["api"]):
            return "read"
        access = (project.get("permissions") or {}).values()
        levels = [each["access_level"] for each in access if each]
        return "write" if max(levels, default=0) >= _DEVELOPER else "read"

    def read_issue(self, number: int) -> Issue:
        """Return an issue."""
        found = self._rest.get(f"{self._path}/issues/{number}", f"the issue {self._name}#{number}")
        return Issue(found["title"], found.get("description") or "")

    def read_pull(self, number: int) -> PullRequest:
        """Return a merge request."""
        what = f"the merge request {self._name}!{number}"
        found = self._rest.get(f"{self._path}/merge_requests/{number}", what)
        return PullRequest(
            _STATES.get(found["state"], "closed"),
            found["source_branch"],
            found.get("sha") or "",
            found.get("source_project_id") != found.get("target_project_id"),
            found["title"],
            found.get("description") or "",
            found["target_branch"],
        )

    def read_comments(self, number: int, since: datetime) -> list[str]:
        """Return what members who may write say about a merge request, in order."""
        path = f"{self._path}/merge_requests/{number}/notes"
        what = f"the comments of merge request {self._name}!{number}"
        notes = self._rest.list_all(path, what, sort="asc", order_by="created_at", per_page=100)
        said = []
        for each in notes:
            if each.get("system") or read_time(each["created_at"]) <= since:
                continue
            if self._writes(each["author"]["username"]):
                place = each.get("position") or {}
                said.append(
                    quote_comment(each["body"], place.get("new_path"), place.get("new_line"))
                )
        return said

    def publish(
        self, branch: str, base: str, title: str, body: str, *, is_trial: bool = False
    ) -> str:
        """Return the address of the merge request of a branch. Without one, open a draft.

        The rights say all that a trial asks: GitLab may open one for a branch that does not exist.
        """
        if is_trial:
            return ""
        what, path = f"a merge request in {self._name}", f"{self._path}/merge_requests"
        if address := self._update(branch, body):
            return address
        content = {"source_branch": branch, "target_branch": base, "title": title}
        answer = self._rest.ask("POST", path, {**content, "description": body})
        if answer.status_code == 409 and (address := self._update(branch, body)):
            return address  # another run of the job has opened it meanwhile
        return str(self._rest.check(answer, what).json()["web_url"])

    def _update(self, branch: str, body: str) -> str | None:
        what, path = f"a merge request in {self._name}", f"{self._path}/merge_requests"
        found = self._rest.get(path, what, source_branch=branch, state="all")
        if not found:
            return None
        if found[0].get("description") != body:
            self._rest.send("PUT", f"{path}/{found[0]['iid']}", what, {"description": body})
        return str(found[0]["web_url"])

    def comment(self, number: int, text: str, *, is_pull: bool) -> None:
        """Comment on an issue or a merge request."""
        kind = "merge_requests" if is_pull else "issues"
        path = f"{self._path}/{kind}/{number}/notes"
        self._rest.send("POST", path, f"a comment in {self._name}", {"body": text})

    def read_checks(self, commit: str) -> CommitChecks:
        """Return what CI says about a commit: its jobs and external statuses."""
        path = f"{self._path}/repository/commits/{commit}/statuses"
        found = self._rest.list_all(path, f"the checks of {self._name}", per_page=100)
        failed = [
            FailedCheck(
                each["name"],
                self._rest.read_text(f"{self._path}/jobs/{each['id']}/trace")
                or each.get("description")
                or "",
            )
            for each in found
            if each["status"] == "failed" and not each.get("allow_failure")
        ]
        return CommitChecks(any(each["status"] in _PENDING for each in found), tuple(failed))

    def read_events(self, since: datetime) -> list[Event]:
        """Return labels and mentions since a time."""
        found = [*self._list_notes(since), *self._list_items("issues", since)]
        found += self._list_items("merge_requests", since)
        return [event for event in found if event.at > since]

    def _list_notes(self, since: datetime) -> list[Event]:
        day = (since - timedelta(days=1)).date().isoformat()  # the day itself is left out
        query = {"target_type": "note", "after": day, "per_page": 100}
        events = []
        for each in self._rest.list_all(f"{self._path}/events", "the events", **query):
            note = each.get("note") or {}
            text = find_mention(note.get("body"))
            if text is not None and note["noteable_type"] in ("Issue", "MergeRequest"):
                is_pull = note["noteable_type"] == "MergeRequest"
                at, user = read_time(note["created_at"]), note["author"]["username"]
                events.append(Event(at, note["noteable_iid"], is_pull, user, text))
        return events

    def _list_items(self, kind: str, since: datetime) -> list[Event]:
        """Return the labels and the mentions in the texts of issues or merge requests."""
        path, what, is_pull = f"{self._path}/{kind}", f"the {kind}", kind != "issues"
        query = {"state": "opened", "updated_after": since.isoformat(), "per_page": 100}
        events = []
        for item in self._rest.list_all(path, what, **query):
            number, text = item["iid"], find_mention(item.get("description"))
            if text is not None and not is_pull:
                at, user = read_time(item["created_at"]), item["author"]["username"]
                events.append(Event(at, number, is_pull, user, text))
            if LABEL not in item.get("labels", []):
                continue
            labels = self._rest.list_all(f"{path}/{number}/resource_label_events", what)
            events += [
                Event(read_time(each["created_at"]), number, is_pull, each["user"]["username"])
                for each in labels
                if each["action"] == "add" and (each.get("label") or {}).get("name") == LABEL
            ]
        return events


def find_path(source: RepositorySource) -> str:
    """Return the path of a project with all its groups."""
    address = source.address
    path = urlsplit(address).path if "://" in address else address.partition(":")[2]
    if address.startswith(f"{source.web}/"):
        path = address.removeprefix(f"{source.web}/")
    return path.strip("/").removesuffix(".git")


def read_delivery(payload: dict[str, Any]) -> Event | None:
    """Return the event of a webhook of GitLab; None if it concerns no job."""
    what, kind = payload.get("object_attributes") or {}, payload.get("object_kind")
    if kind == "pipeline":
        return Event(datetime.now(UTC), commit=what["sha"])
    if kind == "note":
        item = payload.get("issue") or payload.get("merge_request")
        text = find_mention(what["note"]) if what.get("action", "create") == "create" else None
        is_pull, at = "merge_request" in payload, what.get("created_at")
    else:
        item, is_pull, at = what, kind == "merge_request", what.get("updated_at")
        is_set = kind in ("issue", "merge_request") and _has_new_label(payload)
        is_new = kind == "issue" and what.get("action") == "open"
        text = "" if is_set else find_mention(what.get("description")) if is_new else None
    if item is None or text is None:
        return None
    return Event(read_time(at), item["iid"], is_pull, payload["user"]["username"], text)


def _has_new_label(payload: dict[str, Any]) -> bool:
    changed = (payload.get("changes") or {}).get("labels") or {}
    before, now = (
        {each["title"] for each in changed.get(name) or []} for name in ("previous", "current")
    )
    return LABEL in now - before
