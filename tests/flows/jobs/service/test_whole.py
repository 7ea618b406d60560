"""From a request over HTTP to a pull request: a real server, a real worker, a real forge."""

import json
from collections.abc import Iterator

import pytest

from flows.jobs.request import FORGE, TOKEN
from flows.storage.images import CACHE_VARIABLE
from tests.flows.jobs.conftest import NAME, REPAIR, arm
from tests.operation.running import QUICK
from tests.servers.forge import Forge
from tests.servers.prefect_server import PrefectServer
from tests.servers.service import Service
from tests.waiting import wait_until

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory, forge: Forge) -> Iterator[Service]:
    """Yield a service whose Prefect server has a worker. Only the worker has the forge's token."""
    folder = tmp_path_factory.mktemp("whole")
    with PrefectServer.prepared(folder) as server:
        server.environment |= QUICK
        variables = {
            FORGE: forge.url,
            TOKEN: forge.token,
            CACHE_VARIABLE: str(folder / "cache"),
        }
        with server.worker(**variables), Service(server) as service:
            yield service


def test_a_request_becomes_a_pull_request_once_it_is_approved(
    working: Service, forge: Forge
) -> None:
    """The socket reports all of it, and no answer of the service contains the token."""
    content = {
        "source": NAME,
        "task": "Add, don't subtract.",
        "arms": [arm("able", REPAIR)],
        "environment": "host",
        "publish": "pull_request",
        "approve": True,
    }
    job_id = working.post("/submit", content)["id"]
    events, states = [], []
    for event in working.events(job_id, seconds=400):
        events.append(event)
        if event["type"] != "status":
            continue
        states.append(event["job"]["state"])
        if states[-1] == "waiting" and states.count("waiting") == 1:
            assert forge.pulls[NAME] == []
            assert event["job"]["verdict"] == "nothing_broke"
            assert "+    return a + b" in working.get(f"/result/{job_id}")["patch"]
            working.post(f"/jobs/{job_id}/approve")
    kinds = [event["kind"] for event in events if event["type"] == "step"]
    assert kinds[:2] == ["model", "command"]
    assert "waiting" in states
    assert states[-1] == "done"
    assert events[-1] == {"type": "end", "state": "done"}
    done = working.get(f"/status/{job_id}")
    assert done["pull_request"] == forge.pulls[NAME][0]["html_url"]
    shown = working.client.get(f"/ui/jobs/{job_id}").text
    assert forge.pulls[NAME][0]["html_url"] in shown
    assert forge.token not in json.dumps([events, working.get(f"/result/{job_id}"), shown])
    attempts = working.get(f"/result/{job_id}")["attempts"]
    assert [(each["arm"], each["outcome"]) for each in attempts] == [("able", "submitted")]


def test_without_a_prefect_server_requests_say_so(working: Service) -> None:
    """Nothing is lost, and the service continues when the server is back."""
    content = {"source": NAME, "task": "x", "arms": [arm("able", REPAIR)], "environment": "host"}
    working.server.stop()
    for method, path, options in (
        ("GET", "/jobs", {}),
        ("POST", "/submit", {"json": content}),
    ):
        status, message = working.refusal(method, path, **options)
        assert (status, message[:34]) == (503, "the Prefect server does not answer")
    assert working.client.get("/health").status_code == 503
    working.server.start()
    wait_until(lambda: working.client.get("/health").is_success, seconds=120)
    assert "total" in working.get("/jobs")
