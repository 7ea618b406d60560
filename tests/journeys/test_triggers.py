"""A label, a mention and failing CI on a forge start and continue jobs."""

import hmac
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.journal import InboxMessage
from flows.jobs.mailbox import leave
from flows.jobs.request import FORGE, TOKEN
from flows.jobs.service.triggers import SECRET
from flows.storage.images import CACHE_VARIABLE
from flows.storage.lake import Lake, Row
from tests.flows.jobs.conftest import FILES, NAME, REPAIR, arm
from tests.operation.running import QUICK
from tests.servers.forge import Forge
from tests.servers.prefect_server import PrefectServer
from tests.servers.service import Service
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

WORD = "a-secret-of-the-webhook"
MODEL = "openai/gpt-5"
MORE = f"{REPAIR}; date +%s%N >>log.txt"
"""A change that an arm makes each time."""


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    """Yield a forge with one project and one issue."""
    with Forge(tmp_path / "forge") as forge:
        forge.add(NAME, FILES)
        forge.issues[NAME, 7] = {"title": "Wrong sum", "body": "It subtracts."}
        yield forge


@pytest.fixture(scope="module")
def with_deployment(prefect_server: PrefectServer) -> PrefectServer:
    """Return a server with the deployment of jobs."""
    assert prefect_server.run("durabench", "setup").returncode == 0
    prefect_server.prefect("deploy", "--name", "job")
    return prefect_server


@pytest.fixture
def operator(forge: Forge, with_deployment: PrefectServer, tmp_path: Path) -> PrefectServer:
    """Return the server for programs with the tokens of an operator."""
    variables = {FORGE: forge.url, TOKEN: forge.token, SECRET: WORD, **QUICK}
    variables[CACHE_VARIABLE] = str(tmp_path / "cache")
    return with_deployment.apart(tmp_path / "operator", **variables)


def deliver(service: Service, event: str, payload: dict[str, Any], secret: str = WORD) -> Any:
    """Send an event as GitHub does. Return the answer."""
    body = json.dumps(payload).encode()
    digest = hmac.new(secret.encode(), body, "sha256").hexdigest()
    headers = {"X-GitHub-Event": event, "X-Hub-Signature-256": f"sha256={digest}"}
    headers["X-GitHub-Delivery"] = digest  # the same content is the same delivery
    answer = service.client.post(
        "/webhook", content=body, headers={**headers, "Authorization": "", "Accept": "*/*"}
    )
    return answer.json() | {"status": answer.status_code}


def label(forge: Forge, user: str = "octo", minutes: int = 0) -> dict[str, Any]:
    """Return the event of a label on the issue."""
    at = (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()
    return {
        "action": "labeled",
        "label": {"name": "durabench"},
        "issue": {"number": 7, "updated_at": at},
        "repository": {"html_url": f"{forge.url}/{NAME}"},
        "sender": {"login": user},
    }


def mention(forge: Forge, minutes: int = 0) -> dict[str, Any]:
    """Return the event of a mention on the issue."""
    at = (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()
    comment = {"body": "@durabench use a plus", "created_at": at}
    return {**label(forge), "action": "created", "comment": comment}


def test_a_label_starts_one_job_of_an_issue(operator: PrefectServer, forge: Forge) -> None:
    """Whoever delivers it how often; only for people who may write, and only with the secret."""
    with Service(operator, "--model", MODEL, "--budget", "3") as service:
        signed = label(forge)
        assert deliver(service, "issues", signed, "another-secret-of-others")["status"] == 401
        digest = hmac.new(WORD.encode(), b"{}", "sha256").hexdigest()
        for name, right in {"X-Gitlab-Token": WORD, "X-Gitea-Signature": digest}.items():
            for value, status in ((right, 400), (f"{right}0", 401)):
                answer = service.client.post("/webhook", content=b"{}", headers={name: value})
                assert answer.status_code == status
        stranger = deliver(service, "issues", label(forge, "stranger"))
        assert stranger["ignored"] == f"stranger may not write to {NAME}"
        assert ordered(service, forge) == []

        job_id = deliver(service, "issues", signed)["job"]
        for again in (signed, label(forge), {**label(forge), "x": 1}):
            deliver(service, "issues", again)
        assert ordered(service, forge) == [(job_id, f"{forge.url}/{NAME}/issues/7")]
        [(number, text)] = forge.said
        assert (number, job_id in text) == (7, True)
        assert deliver(service, "issue_comment", mention(forge))["job"] == job_id
        assert forge.said[1:] == []  # it is left for the arm
        with operator.worker():  # it has no key of the model
            wait_until(lambda: service.get(f"/status/{job_id}")["state"] == "failed", seconds=120)
            assert len(list_failures(forge)) == 1
            deliver(service, "issues", label(forge, minutes=10))
            wait_until(lambda: list_failures(forge)[1:], seconds=120)
        comment = mention(forge, minutes=20)
        # A service that died between text and order has left this.
        name = f"7-{comment['comment']['created_at']}-octo"
        leave(
            Lake.existing(service.lake),
            job_id,
            InboxMessage(name, "say", "@durabench use a plus", "octo"),
        )
        again = deliver(service, "issue_comment", comment)
        assert again["job"] != job_id  # with another task
        assert {number for number, _ in forge.said} == {7}
        printed = operator.folder.glob("durabench-*.log")
        assert not any(
            secret in file.read_text() for file in printed for secret in (WORD, forge.token)
        )


def test_failing_ci_is_repaired_within_limits(operator: PrefectServer, forge: Forge) -> None:
    """Its log is data in the task. A mention of a person counts as a new order."""
    arms = {"name": "arms", "arms": [arm("able", MORE)]}
    file = operator.folder / "arms.yaml"
    file.write_text(yaml.safe_dump(arms))
    words = ("job", NAME, "Add, don't subtract.", "-x", str(file), "-e", "host", "--pr")
    done = operator.run("durabench", *words)
    assert done.returncode == 0, done.stderr
    [first] = jobs(operator)
    with Service(operator, "--repairs", "1") as service, operator.worker():
        fail(forge, first["commit"])
        revision = deliver(service, "check_suite", suite(forge, first["commit"]))["job"]
        assert deliver(service, "check_suite", suite(forge, first["commit"]))["job"] == revision
        row = wait_for(operator, revision)
        assert (row["branch"], row["commit"]) == (
            first["branch"],
            forge.branches(NAME)[row["branch"]],
        )
        said = row["statement"].partition("the reviewer says:")[2]
        assert "`unit`:\n\n```text\nE assert 1 == 2\n```" in said
        fail(forge, row["commit"])
        limited = deliver(service, "check_suite", suite(forge, row["commit"]))
        assert limited["ignored"] == "the limit of repairs or the budget is reached"

        at = datetime.now(UTC).isoformat()
        comment = {"body": "@durabench say why", "created_at": at, "user": {"login": "octo"}}
        forge.comments[NAME, "/issues/1/comments"] = [{**comment, "author_association": "OWNER"}]
        on_pull = {"action": "created", "issue": {"number": 1, "pull_request": {}}}
        asked = {**label(forge), **on_pull, "comment": comment}
        answer = deliver(service, "issue_comment", asked)
        assert "job" in answer, answer
        last = wait_for(operator, answer["job"])
        assert last["statement"].endswith("@durabench say why")
        assert "has it already" in deliver(service, "issue_comment", {**asked, "x": 1})["ignored"]
    assert len(forge.pulls[NAME]) == 1


def test_a_service_without_an_address_looks_itself(operator: PrefectServer, forge: Forge) -> None:
    """At labels and at mentions of the last day."""
    at = datetime.now(UTC).isoformat()
    event = {"event": "labeled", "label": {"name": "durabench"}, "created_at": at}
    forge.events["/issues/events"] = [
        {**event, "issue": {"number": 7}, "actor": {"login": "octo"}},
        {**event, "issue": {"number": 8}, "actor": {"login": "stranger"}},
    ]
    with Service(operator, "--model", MODEL, "--watch", NAME) as service:
        [(_, source)] = wait_until(lambda: ordered(service, forge), seconds=60)
        assert source == f"{forge.url}/{NAME}/issues/7"


def ordered(service: Service, forge: Forge) -> list[tuple[str, str]]:
    """Return the jobs on a forge, with their sources. Other tests share the Prefect server."""
    listed = service.get("/jobs")["jobs"]
    return [(job["id"], job["source"]) for job in listed if job["source"].startswith(forge.url)]


def list_failures(forge: Forge) -> list[str]:
    """Return the comments on failures."""
    return [text for _, text in forge.said if "failed: " in text]


def jobs(operator: PrefectServer) -> list[Row]:
    return Lake.existing(operator.environment["DURABENCH_LAKE"]).all_shared("jobs")


def wait_for(operator: PrefectServer, job_id: str) -> Row:
    """Return the row of a job once it is done."""

    def find() -> Row | None:
        found = [row for row in jobs(operator) if row["job_id"] == job_id]
        assert [row["detail"] for row in found if row["state"] == "failed"] == []
        return next((row for row in found if row["state"] == "done"), None)

    row = wait_until(find, seconds=300, every_s=0.5)
    assert row is not None
    return row


def fail(forge: Forge, commit: str) -> None:
    forge.checks[commit] = [{"name": "unit", "state": "failure", "log": "E assert 1 == 2"}]


def suite(forge: Forge, commit: str) -> dict[str, Any]:
    """Return the event of a check suite that has ended."""
    repository = {"html_url": f"{forge.url}/{NAME}"}
    return {"action": "completed", "check_suite": {"head_sha": commit}, "repository": repository}
