"""The routes and the pages of a real service, as a client and a browser use them."""

import asyncio
import json
import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from flows.jobs.approving import is_approved
from flows.storage.lake import Lake
from tests.flows.jobs.service.conftest import JOB
from tests.flows.jobs.service.recording import DONE, PATCH, Worker, filed, with_experiment
from tests.servers.service import TOKEN, Service
from tests.waiting import wait_until


def test_a_submitted_job_is_scheduled_and_listed(
    server: Service, submitted: dict[str, Any]
) -> None:
    """Its status is known before a worker takes it, also by the id of its flow run."""
    job_id = submitted["id"]
    assert (submitted["state"], submitted["is_final"]) == ("scheduled", False)
    assert submitted["title"] == "Add, don't subtract."
    for name in (job_id, submitted["flow_run_id"]):
        status = server.get(f"/status/{name}")
        assert (status["id"], status["state"], status["calls"]) == (job_id, "scheduled", 0)
    listed = server.get("/jobs", params={"state": "scheduled", "limit": 1000})["jobs"]
    assert job_id in [job["id"] for job in listed]
    assert server.refusal("GET", f"/result/{job_id}") == (
        409,
        f"job {job_id} has no result yet: it is scheduled",
    )


def test_a_submission_is_repeated_by_its_key(server: Service) -> None:
    """A client that lost the answer asks again, and one job is ordered."""
    key = {"Idempotency-Key": "one"}
    first, again = (server.post("/submit", JOB, headers=key) for _ in range(2))
    assert first["id"] == again["id"]
    assert server.post("/submit", JOB)["id"] != first["id"]
    status, said = server.refusal("POST", "/submit", json={**JOB, "task": "Other."}, headers=key)
    assert (status, f"belongs to job {first['id']}, which differs" in said) == (409, True)


async def test_a_crowd_is_accepted_or_told_to_wait(server: Service) -> None:
    """Each of a hundred clients has an answer soon, and no refused job is ordered."""

    async def submit(asking: httpx.AsyncClient, number: int) -> httpx.Response:
        task = f"The task of a crowd, number {number}."
        return await asking.post("/submit", json={**JOB, "task": task})

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=server.url, headers=server.headers, timeout=60, limits=limits
    ) as asking:
        answers = await asyncio.gather(*(submit(asking, number) for number in range(100)))
    refused = [answer for answer in answers if answer.status_code == 503]
    accepted = {answer.json()["id"] for answer in answers if answer.status_code == 202}
    assert len(accepted) + len(refused) == 100
    assert accepted
    assert all(answer.headers["Retry-After"] == "5" for answer in refused)
    assert max(answer.elapsed for answer in answers) < timedelta(seconds=8)

    def are_ordered() -> bool:
        listed = server.get("/jobs", params={"limit": 1000})["jobs"]
        return {job["id"] for job in listed if "of a crowd" in job["title"]} == accepted

    wait_until(are_ordered, seconds=20)  # the last ones are withdrawn after their refusal


def test_a_cancelled_job_is_final(server: Service, submitted: dict[str, Any]) -> None:
    """Nothing had started, so that it ends at once. It is cancelled once."""
    path = f"/jobs/{submitted['id']}/cancel"
    cancelled = server.post(path)
    assert (cancelled["state"], cancelled["is_final"]) == ("cancelled", True)
    assert server.refusal("POST", path) == (
        409,
        f"job {submitted['id']} has ended: it is cancelled",
    )


def test_a_finished_job_has_a_result(server: Service) -> None:
    """The row of the lake is the result, with the report of the pull request."""
    filed(server.lake, "d0d0d0d0d0", **DONE)
    result = server.get("/result/d0d0d0d0d0")
    assert (result["state"], result["verdict"], result["patch"]) == ("done", "nothing_broke", PATCH)
    assert result["evidence"]["before"]["failed"] == ["test_sum"]
    assert result["report"].startswith("**Verification: nothing broke**")
    assert result["attempts"] == []
    names = ("job_id", "status", "pr_url", "total_cost", "total_tokens_in", "tests_passed", "logs")
    others = ("d0d0d0d0d0", "done", DONE["pull_request"], 0.25, 100, True, [])
    assert tuple(result[name] for name in names) == others
    assert (result["iterations"], result["resumed_from_checkpoint"]) == (0, False)


def test_the_log_of_a_job_is_text(server: Service) -> None:
    """It has one line for each step."""
    Worker(server.lake, "d1d1d1d1d1").call("ls", 0.5)
    filed(server.lake, "d1d1d1d1d1")
    answer = server.client.get("/jobs/d1d1d1d1d1/log")
    assert answer.headers["content-type"].startswith("text/plain")
    [line] = answer.text.splitlines()
    assert " mini agent ls " in line


def test_a_job_that_waits_is_approved_once(server: Service) -> None:
    """Approving orders one flow run, and a job that does not wait is not approved."""
    job_id = uuid4().hex[:10]
    filed(server.lake, job_id, **{**DONE, "state": "waiting"})
    approved = server.post(f"/jobs/{job_id}/approve")
    assert approved["state"] == "scheduled"
    found = server.server.get(f"/flow_runs/{approved['flow_run_id']}")
    assert found["parameters"]["request"]["id"] == job_id
    assert is_approved(Lake.existing(str(server.lake)), {"job_id": job_id, **DONE})
    status, message = server.refusal("POST", f"/jobs/{job_id}/approve")
    assert (status, message) == (
        409,
        f"job {job_id} does not wait for approval: it is scheduled",
    )


def test_a_published_job_is_revised(server: Service) -> None:
    """A new job continues it; one without a commit cannot be revised."""
    filed(server.lake, "e0e0e0e0e0", **DONE)
    new = server.post("/jobs/e0e0e0e0e0/revise", {"text": "Also document it."})
    assert (new["revises"], new["title"]) == ("e0e0e0e0e0", "Also document it.")
    filed(server.lake, "e1e1e1e1e1", state="failed")
    status, message = server.refusal("POST", "/jobs/e1e1e1e1e1/revise", json={"text": "x"})
    assert (status, message.partition(":")[0]) == (
        409,
        "job e1e1e1e1e1 made no commit that could be revised",
    )


def sent(body: bytes) -> dict[str, Any]:
    """Return the options of a request with a body of JSON."""
    return {"content": body, "headers": {"Content-Type": "application/json"}}


def odd(field: bytes) -> bytes:
    """Return a job with one field as it is written."""
    return json.dumps(JOB).encode().removesuffix(b"}") + b", " + field + b"}"


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "said"),
    [
        (
            "POST",
            "/submit",
            {"json": {**JOB, "arms": ["missing"]}},
            422,
            "there is no arm 'missing'",
        ),
        ("POST", "/submit", {"json": {**JOB, "task": "x" * 5_000_000}}, 413, "the body is longer"),
        ("POST", "/submit", {"content": b"{"}, 415, "send the body as JSON"),
        (
            "POST",
            "/submit",
            {"content": b"{", "headers": {"Content-Type": "application/json"}},
            400,
            "the body is not JSON",
        ),
        ("POST", "/submit", sent(b"[" * 100_000), 400, "the body is nested too deep"),
        ("POST", "/pipelines", sent(b'{"a":' * 100_000), 400, "the body is nested too deep"),
        ("POST", "/jobs/0000000000/revise", sent(b'{"a":' * 100_000), 400, ""),
        ("POST", "/submit", sent(odd(b'"budget_usd": 1e999')), 422, "budget_usd: Input should be"),
        ("POST", "/submit", sent(odd(b'"task": "\\u0000"')), 422, "task: it has a NUL"),
        ("POST", "/submit", sent(odd(b'"task": "\\ud800"')), 422, "task: it has a NUL or half"),
        (
            "POST",
            "/submit",
            sent(odd(rb'"ref": "\u0067hp_' + b"a" * 36 + b'"')),
            422,
            "ref: it holds",
        ),
        ("POST", "/submit", {"json": JOB, "headers": {"Origin": "http://x"}}, 403, "pages of"),
        ("GET", "/status/0000000000", {}, 404, "there is no job '0000000000'"),
        ("GET", "/status/00000000-0000-0000-0000-000000000000", {}, 404, "there is no job"),
        ("GET", "/result/%2e%2e%2fetc", {}, 404, ""),
        ("GET", "/jobs?limit=0", {}, 422, "limit: "),
        ("GET", "/jobs?state=odd", {}, 422, "state: "),
        ("POST", "/jobs/0000000000/cancel", {}, 404, "there is no job"),
        ("GET", "/nowhere", {}, 404, ""),
        ("DELETE", "/jobs", {}, 405, ""),
    ],
)
def test_a_request_that_cannot_be_answered_says_why(
    method: str, path: str, options: dict[str, Any], status: int, said: str, server: Service
) -> None:
    """The answer is a 4xx with one line."""
    given, message = server.refusal(method, path, **options)
    assert given == status
    assert message.startswith(said)


def test_without_the_token_nothing_is_answered(server: Service, submitted: dict[str, Any]) -> None:
    """Neither routes nor sockets nor pages; the health is."""
    asked = httpx.get(f"{server.url}/jobs")
    assert (asked.status_code, asked.json()["error"]) == (
        401,
        "a token is needed: Authorization: Bearer TOKEN",
    )
    with pytest.raises(InvalidStatus) as refused:
        server.follow(submitted["id"], headers={})
    assert refused.value.response.status_code == 401
    assert httpx.get(f"{server.url}/health").is_success


def test_a_browser_signs_in_with_the_token(server: Service) -> None:
    """It is led back to its page, and its cookie does not hold the token."""
    with httpx.Client(base_url=server.url, timeout=60) as browser:
        led = browser.get("/ui/new", headers={"Accept": "text/html"})
        assert led.headers["location"] == "/sign-in?next=/ui/new"
        wrong = browser.post("/sign-in", data={"token": "wrong", "next": "/ui/new"})
        assert (wrong.status_code, "This is not the token." in wrong.text) == (401, True)
        done = browser.post("/sign-in", data={"token": TOKEN, "next": "/ui/new"})
        assert done.headers["location"] == "/ui/new"
        assert TOKEN not in done.headers["set-cookie"]
        assert "HttpOnly" in done.headers["set-cookie"]
        assert browser.get("/ui/new").is_success
        for elsewhere in ("//evil.example", "/\\evil.example", "http://evil.example"):
            led = browser.post("/sign-in", data={"token": TOKEN, "next": elsewhere})
            assert led.headers["location"] == "/ui/jobs"


def test_pages_show_jobs_and_escape_what_they_are_given(server: Service) -> None:
    """The list leads to the job, which shows evidence and diff."""
    filed(server.lake, "f0f0f0f0f0", **DONE)
    listed = page(server, "/ui/jobs")
    assert 'href="/ui/jobs/f0f0f0f0f0"' in listed
    assert "don&#39;t &lt;b&gt;subtract" in listed
    shown = page(server, "/ui/jobs/f0f0f0f0f0")
    for part in (
        '<span class="removed">-    return a - b',
        "1 failing test at the base commit",
        "ruff: unused &lt;import&gt;",
        'href="https://forge.example/octo/demo/pull/1"',
    ):
        assert part in shown
    assert server.client.get("/ui/jobs/f0f0f0f0f0/patch").text == PATCH


def test_pages_load_nothing_from_elsewhere(server: Service) -> None:
    """Scripts, styles and forms are the service's own, and its answers say so."""
    answer = server.client.get("/ui/new", headers={"Accept": "text/html"})
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    for path in ("/style.css", "/static/pages.js"):
        assert f'"{path}"' in answer.text
        assert server.client.get(path).is_success
    assert "://" not in server.client.get("/style.css").text
    assert server.client.get("/docs").status_code == 404


def test_a_form_submits_a_job(server: Service) -> None:
    """It leads to the job. What is refused is shown again with the reason."""
    entered = {"source": "octo/demo", "task": "<i>Fix", "arms": "mini", "model": "openai/gpt-5"}
    done = server.client.post("/ui/new", data=entered)
    assert done.status_code == 303
    assert "&lt;i&gt;Fix" in page(server, done.headers["location"])
    refused = server.client.post("/ui/new", data={**entered, "model": ""})
    assert refused.status_code == 422
    assert "arm &#39;mini&#39; needs a model" in refused.text
    assert "&lt;i&gt;Fix" in refused.text


def page(server: Service, path: str) -> str:
    """Return a page as a browser gets it."""
    answer: httpx.Response = server.client.get(path, headers={"Accept": "text/html"})
    assert answer.is_success, answer.text
    return answer.text


def test_an_experiment_shows_its_progress_and_its_report(server: Service) -> None:
    """Jobs are also experiments, and are not listed as such."""
    Worker(server.lake, "c0c0c0c0c0")
    with_experiment(server.lake)
    report = server.lake / "reports" / "legacy" / "index.html"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("<p>The report.")
    listed = page(server, "/ui/experiments")
    assert 'href="/ui/experiments/legacy"' in listed
    assert "job-c0c0c0c0c0" not in listed
    shown = page(server, "/ui/experiments/legacy")
    assert re.search(r"\d+ of \d+ cells? done", shown)
    assert "<progress max=" in shown
    assert page(server, "/ui/experiments/legacy/report/index.html") == "<p>The report."
    for path in ("legacy/report/..%2F..%2Fjournal.sqlite", "legacy/report/none.html", "nothing"):
        assert server.client.get(f"/ui/experiments/{path}").status_code == 404
