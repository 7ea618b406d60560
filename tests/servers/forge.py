"""A forge on loopback: repositories by git's smart HTTP, and GitHub's REST API that jobs use.

with Forge(folder) as forge:
    forge.add("octo/demo", files={"a.py": ""})
    forge.url, forge.api, forge.token

`other_forges` has stand-ins of GitLab and Gitea.
"""

import base64
import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
TOKEN = "forge-token-8f14e45fceea167a"  # a value that a search can find


class Forge:
    """Repositories with their issues and pull requests. A token may read and write all of them."""

    api_path = "/api/v3"
    variable = "GITHUB_TOKEN"
    """The usual variable of a token."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = TOKEN
        self.may_write = True
        self.may_open = True
        """False if the token opens no pull requests."""
        self.is_private = False
        self.has_drafts = True
        self.comments: dict[tuple[str, str], list[dict[str, Any]]] = {}
        """Comments by repository and path, such as `/pulls/1/reviews`."""
        self.issues: dict[tuple[str, int], dict[str, Any]] = {}
        self.writers = {"octo"}
        """Users who may write to the repositories."""
        self.said: list[tuple[int, str]] = []
        """Comments that were made, with the number of their issue or pull request."""
        self.checks: dict[str, list[dict[str, Any]]] = {}
        """Checks of CI by commit: `name`, `state` (failure, success or pending) and `log`."""
        self.events: dict[str, list[dict[str, Any]]] = {}
        """Answers to requests for events, by their path in the repository."""
        self.pulls: dict[str, list[dict[str, Any]]] = {}
        self.requests: list[str] = []
        """Method and path of every request, in order."""
        self.before_answer: Callable[[str], None] = lambda request: None
        """Called with method and path when a request was carried out and is not answered yet."""
        self.fail_next: list[str] = []
        """Beginnings of requests that are answered with 502, each once."""
        handler = type("Handler", (self.handler,), {"forge": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.api = f"{self.url}{self.api_path}"

    @property
    def handler(self) -> "type[Handler]":
        """Return what answers requests."""
        return Handler

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, name: str, files: Mapping[str, str]) -> str:
        """Add a repository with these files as the only commit of `main`. Return the commit."""
        bare = self.path(name)
        bare.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", bare], check=True)
        subprocess.run(["git", "-C", bare, "config", "http.receivepack", "true"], check=True)
        self.pulls[name] = []
        return self.commit(name, files, "base")

    def commit(self, name: str, files: Mapping[str, str], message: str) -> str:
        """Add a commit with these files to `main`. Return its id."""
        work = self.folder / "work" / name
        if not work.exists():
            subprocess.run(["git", "clone", "-q", self.path(name), work], check=True)
            subprocess.run(["git", "-C", work, "checkout", "-q", "-B", "main"], check=True)
        for path, text in files.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_text(text)
        for command in (
            ["add", "-A"],
            [*IDENTITY, "commit", "-qm", message],
            ["push", "-q", "origin", "main"],
        ):
            subprocess.run(["git", "-C", work, *command], check=True)
        return self.git(name, "rev-parse", "main")

    def path(self, name: str) -> Path:
        """Return the folder of a repository."""
        return self.folder / "repositories" / f"{name}.git"

    def git(self, name: str, *arguments: str) -> str:
        """Run git in a repository. Return its output."""
        return subprocess.check_output(
            ["git", "-C", self.path(name), *arguments], text=True
        ).strip()

    def branches(self, name: str) -> dict[str, str]:
        """Return the head of each branch."""
        listed = self.git(
            name, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads"
        )
        return dict(line.split() for line in listed.splitlines())  # type: ignore[arg-type]


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    forge: Forge
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = (
            self._chunks()
            if "chunked" in self.headers.get("Transfer-Encoding", "")
            else self.rfile.read(length)
        )
        asked = f"{self.command} {self.path}"
        self.forge.requests.append(asked)
        for beginning in list(self.forge.fail_next):
            if asked.startswith(beginning):
                self.forge.fail_next.remove(beginning)
                self._send(502, {"message": "bad gateway"})
                return
        parts = urlsplit(self.path)
        base = self.forge.api_path
        if parts.path.startswith(f"{base}/"):
            self._api(parts.path.removeprefix(base), parse_qs(parts.query), body)
        elif parts.path.startswith("/logs/"):
            given = "Authorization" in self.headers
            self._send(400 if given else 200, self._find_log(parts.path.removeprefix("/logs/")))
        elif parts.path.startswith("/api/"):
            self._send(404, {"message": "Not Found"})
        else:
            self._git(parts.path, parts.query, body)

    do_GET = do_POST = do_PATCH = do_PUT = _handle  # noqa: N815 - names of the base class

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _find_log(self, number: str) -> bytes:
        """Return the log of the check with a number, among all."""
        everything = [each for checks in self.forge.checks.values() for each in checks]
        return str(everything[int(number)]["log"]).encode()

    def _number(self, check: dict[str, Any]) -> int:
        everything = [each for checks in self.forge.checks.values() for each in checks]
        return next(number for number, each in enumerate(everything) if each is check)

    def _git(self, path: str, query: str, body: bytes) -> None:
        forge, writes = self.forge, "git-receive-pack" in f"{path}{query}"
        given = self.headers.get("Authorization", "")
        expected = base64.b64encode(f"x-access-token:{forge.token}".encode()).decode()
        if (writes or forge.is_private) and not given:
            self._send(401, None, {"WWW-Authenticate": 'Basic realm="forge"'})
            return
        if given and given != f"Basic {expected}":
            self._send(401, None, {"WWW-Authenticate": 'Basic realm="forge"'})
            return
        if writes and not forge.may_write:
            self._send(403, None)
            return
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(forge.folder / "repositories"),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "REMOTE_USER": "octo",
            "REMOTE_ADDR": "127.0.0.1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, check=False
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200 OK").split()[0])
        self._send(status, content, headers)

    def _api(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        forge = self.forge
        given = self.headers.get("Authorization", "")
        if given and given.split()[-1] != forge.token:
            self._send(401, {"message": "Bad credentials"})
            return
        may = given and forge.may_write and forge.may_open
        if self.command != "GET" and not may:
            self._send(403, {"message": "Resource not accessible by personal access token"})
            return
        found = re.fullmatch(r"/repos/(?P<name>[^/]+/[^/]+)(?P<rest>/.*)?", path)
        if found is None or found["name"] not in forge.pulls:
            self._send(404, {"message": "Not Found"})
            return
        content = json.loads(body) if body else {}
        self._repository(found["name"], found["rest"] or "", query, content)

    def _repository(
        self, name: str, rest: str, query: dict[str, list[str]], content: dict[str, Any]
    ) -> None:
        forge, pulls = self.forge, self.forge.pulls[name]
        owner = name.partition("/")[0]
        issue = re.fullmatch(r"/issues/(\d+)(/comments)?", rest)
        pull = re.fullmatch(r"/pulls/(\d+)", rest)
        comments = re.fullmatch(r"/(?:pulls|issues)/\d+/(?:reviews|comments)", rest)
        user = re.fullmatch(r"/collaborators/([^/]+)/permission", rest)
        commit = re.fullmatch(r"/commits/(\w+)/(check-runs|status)", rest)
        log = re.fullmatch(r"/actions/jobs/(\d+)/logs", rest)
        match self.command, rest:
            case "GET", "":
                self._send(
                    200,
                    {
                        "full_name": name,
                        "default_branch": "main",
                        "url": f"{forge.api}/repos/{name}",
                        "owner": {"login": owner},
                        "permissions": {"pull": True, "push": forge.may_write},
                    },
                )
            case "GET", "/pulls":
                head = query.get("head", [""])[0]
                self._send(200, [p for p in pulls if p["head"]["label"] == head])
            case "POST", "/pulls":
                self._open(name, owner, content)
            case "GET", _ if pull:
                [found] = [p for p in pulls if p["number"] == int(pull[1])]
                found["head"]["sha"] = forge.branches(name).get(found["head"]["ref"], "")
                self._send(200, found)
            case "GET", _ if user:
                self._send(200, {"permission": "write" if user[1] in forge.writers else "read"})
            case "GET", _ if commit and commit[2] == "check-runs":
                runs = [self._run_of(check) for check in forge.checks.get(commit[1], [])]
                self._send(200, {"total_count": len(runs), "check_runs": runs})
            case "GET", _ if commit:
                self._send(200, {"state": "pending", "statuses": []})
            case "GET", _ if log:
                elsewhere = f"{forge.url.replace('127.0.0.1', 'localhost')}/logs/{log[1]}"
                self._send(302, None, {"Location": elsewhere})
            case "GET", "/issues" | "/issues/comments" | "/pulls/comments" | "/issues/events":
                self._send(200, forge.events.get(rest, []))
            case "GET", _ if comments:
                self._send(200, forge.comments.get((name, comments[0]), []))
            case "PATCH", _ if pull:
                [found] = [p for p in pulls if p["number"] == int(pull[1])]
                found.update(content)
                self._send(200, found)
            case "GET", _ if issue and not issue[2] and (name, int(issue[1])) in forge.issues:
                self._send(200, forge.issues[name, int(issue[1])])
            case "POST", _ if issue and issue[2]:
                forge.said.append((int(issue[1]), content["body"]))
                self._send(201, {"id": 1, "body": content["body"]})
            case _:
                self._send(404, {"message": "Not Found"})

    def _run_of(self, check: dict[str, Any]) -> dict[str, Any]:
        is_done = check["state"] != "pending"
        return {
            "id": self._number(check),
            "name": check["name"],
            "status": "completed" if is_done else "in_progress",
            "conclusion": check["state"] if is_done else None,
        }

    def _open(self, name: str, owner: str, content: dict[str, Any]) -> None:
        forge, label = self.forge, f"{owner}:{content['head']}"
        pulls = forge.pulls[name]
        branch = content["head"].rpartition(":")[2]
        if branch not in forge.branches(name):
            self._send(
                422,
                {"message": "Validation Failed", "errors": [{"field": "head", "code": "invalid"}]},
            )
            return
        if any(p["head"]["label"] == label and p["state"] == "open" for p in pulls):
            self._send(
                422,
                {
                    "message": "Validation Failed",
                    "errors": [{"message": f"A pull request already exists for {label}."}],
                },
            )
            return
        if content["base"] not in forge.branches(name):
            self._send(
                422,
                {"message": "Validation Failed", "errors": [{"field": "base", "code": "invalid"}]},
            )
            return
        if len(content["title"]) > 256 or len(content["body"]) > 65_536:
            self._send(422, {"message": "Validation Failed", "errors": [{"code": "too_long"}]})
            return
        if content["draft"] and not forge.has_drafts:
            self._send(422, {"message": "Draft pull requests are not supported in this repository"})
            return
        number = len(pulls) + 1
        pulls.append(
            {
                **content,
                "number": number,
                "state": "open",
                "merged": False,
                "head": {"label": label, "ref": branch, "sha": forge.branches(name)[branch]},
                "base": {"ref": content["base"], "label": f"{owner}:{content['base']}"},
                "html_url": f"{forge.url}/{name}/pull/{number}",
                "url": f"{forge.api}/repos/{name}/pulls/{number}",
                "issue_url": f"{forge.api}/repos/{name}/issues/{number}",
            }
        )
        self._send(201, pulls[-1])

    def _send(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        body = (
            content
            if isinstance(content, bytes)
            else b""
            if content is None
            else json.dumps(content).encode()
        )
        self.forge.before_answer(f"{self.command} {self.path}")
        self.send_response(status)
        for name, value in (headers or {"Content-Type": "application/json"}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
