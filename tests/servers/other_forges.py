"""Stand-ins of GitLab and Gitea, which refuse what these refuse."""

import json
import re
from typing import Any
from urllib.parse import unquote

from tests.servers.forge import Forge, Handler

Query = dict[str, list[str]]


class GitLabForge(Forge):
    """Projects in groups of groups, with merge requests."""

    api_path = "/api/v4"
    variable = "GITLAB_TOKEN"

    @property
    def handler(self) -> type[Handler]:
        """Return what answers requests."""
        return _GitLab


class GiteaForge(Forge):
    """Repositories whose API is nearly GitHub's."""

    api_path = "/api/v1"
    variable = "GITEA_TOKEN"
    is_admin = True
    """False if the token does not administrate the repositories."""

    @property
    def handler(self) -> type[Handler]:
        """Return what answers requests."""
        return _Gitea


class _GitLab(Handler):
    def _api(self, path: str, query: Query, body: bytes) -> None:
        forge, content = self.forge, json.loads(body) if body else {}
        given = self.headers.get("PRIVATE-TOKEN")
        if given != forge.token and (given or path == "/version" or self.command != "GET"):
            self._send(401, {"message": "401 Unauthorized"})
            return
        if path == "/personal_access_tokens/self":
            self._send(200, {"scopes": ["api"] if forge.may_open else ["read_api"]})
            return
        found = re.fullmatch(r"/projects/(?P<name>[^/]+)(?P<rest>/.*)?", path)
        name = unquote(found["name"]) if found else ""
        if found is None or name not in forge.pulls:
            self._send(404, {"message": "404 Project Not Found"})
        elif self.command != "GET" and not forge.may_write:
            self._send(403, {"message": "403 Forbidden"})
        else:
            self._repository(name, found["rest"] or "", query, content)

    def _repository(self, name: str, rest: str, query: Query, content: dict[str, Any]) -> None:
        forge, pulls = self.forge, self.forge.pulls[name]
        pull = re.fullmatch(r"/merge_requests/(\d+)", rest)
        notes = re.fullmatch(r"/(?:merge_requests|issues)/(\d+)/notes", rest)
        issue = re.fullmatch(r"/issues/(\d+)", rest)
        statuses = re.fullmatch(r"/repository/commits/(\w+)/statuses", rest)
        trace = re.fullmatch(r"/jobs/(\d+)/trace", rest)
        match self.command, rest:
            case "GET", "":
                level = 40 if forge.may_write else 20
                access = {"project_access": None, "group_access": {"access_level": level}}
                self._send(200, {"path_with_namespace": name, "permissions": access})
            case "GET", "/members/all":
                user = query["query"][0]
                levels = {"access_level": 30 if user in forge.writers else 20}
                self._send(
                    200,
                    [{"username": f"{user}-2", "access_level": 50}, {"username": user} | levels],
                )
            case "GET", "/merge_requests" if "source_branch" in query:
                branch = query["source_branch"][0]
                self._send(200, [self._show(p) for p in pulls if p["head"]["ref"] == branch])
            case "POST", "/merge_requests":
                self._open(name, "", content)
            case "GET", _ if pull:
                self._send(200, self._show(pulls[int(pull[1]) - 1]))
            case "PUT", _ if pull:
                pulls[int(pull[1]) - 1]["body"] = content["description"]
                self._send(200, self._show(pulls[int(pull[1]) - 1]))
            case "GET", _ if issue and (name, int(issue[1])) in forge.issues:
                found = forge.issues[name, int(issue[1])]
                self._send(200, {"title": found["title"], "description": found["body"]})
            case "GET", _ if notes:
                self._send(200, forge.comments.get((name, rest), []))
            case "POST", _ if notes:
                forge.said.append((int(notes[1]), content["body"]))
                self._send(201, {"id": 1})
            case "GET", _ if statuses:
                states = {"failure": "failed"}
                checks = forge.checks.get(statuses[1], [])
                shown = [
                    {
                        "id": self._number(each),
                        "name": each["name"],
                        "status": states.get(each["state"], each["state"]),
                    }
                    for each in checks
                ]
                self._send(200, shown)
            case "GET", _ if trace:
                self._send(200, self._find_log(trace[1]), {"Content-Type": "text/plain"})
            case "GET", _ if rest in forge.events or rest in (
                "/issues",
                "/merge_requests",
                "/events",
            ):
                self._send(200, forge.events.get(rest, []))
            case _:
                self._send(404, {"message": "404 Not Found"})

    def _show(self, pull: dict[str, Any]) -> dict[str, Any]:
        state = "merged" if pull["merged"] else "opened" if pull["state"] == "open" else "closed"
        [name] = [name for name, pulls in self.forge.pulls.items() if pull in pulls]
        return {
            "iid": pull["number"],
            "title": pull["title"],
            "description": pull["body"],
            "state": state,
            "source_branch": pull["head"]["ref"],
            "target_branch": pull["base"]["ref"],
            "sha": self.forge.branches(name).get(pull["head"]["ref"]),
            "web_url": pull["html_url"],
        }

    def _open(self, name: str, owner: str, content: dict[str, Any]) -> None:
        forge, branch, title = self.forge, content["source_branch"], content["title"]
        pulls = forge.pulls[name]
        same = [p for p in pulls if p["head"]["ref"] == branch and p["state"] == "open"]
        if same:
            line = "Another open merge request already exists for this source branch"
            self._send(409, {"message": [f"{line}: !{same[0]['number']}"]})
        elif branch not in forge.branches(name):
            self._send(400, {"message": {"source_branch": ["does not exist"]}})
        elif len(title) > 255:
            self._send(400, {"message": {"title": ["is too long (maximum is 255 characters)"]}})
        else:
            number = len(pulls) + 1
            pulls.append(
                {
                    "number": number,
                    "title": title,
                    "body": content["description"],
                    "state": "open",
                    "merged": False,
                    "draft": title.startswith("Draft: "),
                    "head": {"ref": branch},
                    "base": {"ref": content["target_branch"]},
                    "html_url": f"{forge.url}/{name}/-/merge_requests/{number}",
                }
            )
            self._send(201, self._show(pulls[-1]))


class _Gitea(Handler):
    forge: GiteaForge

    def _api(self, path: str, query: Query, body: bytes) -> None:
        if path == "/version":
            self._send(200, {"version": "1.25.0"})
            return
        given = self.headers.get("Authorization", "")
        if given and given != f"token {self.forge.token}":
            self._send(401, {"message": "invalid username, password or token"})
            return
        super()._api(path, query, body)

    def _repository(self, name: str, rest: str, query: Query, content: dict[str, Any]) -> None:
        forge, pulls = self.forge, self.forge.pulls[name]
        by_branch = re.fullmatch(r"/pulls/([^/]+)/(durabench/.+)", rest)
        status = re.fullmatch(r"/commits/(\w+)/status", rest)
        jobs = re.fullmatch(r"/actions/runs/(\w+)/jobs", rest)
        match self.command, rest:
            case "GET", _ if by_branch:
                wanted = unquote(by_branch[1]), unquote(by_branch[2])
                found = [p for p in pulls if (p["base"]["ref"], p["head"]["ref"]) == wanted]
                self._send(200 if found else 404, found[0] if found else {"message": "not found"})
            case "GET", _ if "/permission" in rest and not forge.is_admin:
                self._send(403, {"message": "repo admins can query all repo permissions"})
            case "GET", _ if status:
                checks = forge.checks.get(status[1], [])
                shown = [
                    {"context": f"ci / {each['name']} (push)", "status": each["state"]}
                    for each in checks
                ]
                self._send(200, {"state": "", "statuses": shown or None})
            case "GET", "/actions/runs":
                self._send(200, {"workflow_runs": [{"id": query["head_sha"][0]}]})
            case "GET", _ if jobs:
                shown = [
                    {"id": self._number(each), "name": each["name"], "conclusion": each["state"]}
                    for each in forge.checks.get(jobs[1], [])
                ]
                self._send(200, {"jobs": shown})
            case "GET", _ if rest in forge.events:
                self._send(200, forge.events[rest])
            case "GET", _ if "check-runs" in rest or rest in ("/pulls/comments", "/issues/events"):
                self._send(404, {"message": "not found"})
            case "GET", _ if rest.endswith("/comments") and "/reviews/" in rest:
                self._send(200, forge.comments.get((name, rest), []))
            case _:
                super()._repository(name, rest, query, content)

    def _open(self, name: str, owner: str, content: dict[str, Any]) -> None:
        forge, title = self.forge, content["title"]
        same = [p for p in forge.pulls[name] if p["head"]["ref"] == content["head"]]
        if any(p["state"] == "open" for p in same):
            self._send(409, {"message": "pull request already exists for these targets"})
        elif content["head"] not in forge.branches(name):
            self._send(404, {"message": "The target couldn't be found."})
        elif len(title) > 255:
            self._send(422, {"message": "title is too long"})
        else:
            super()._open(name, owner, {**content, "draft": title.startswith("WIP: ")})
