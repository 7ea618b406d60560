"""Jobs over HTTP under a real Prefect server: killed workers, and a server that restarts."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from flows.jobs import runs
from flows.jobs.request import FORGE, TOKEN
from flows.storage.images import CACHE_VARIABLE
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import NAME, REPAIR, arm
from tests.operation.running import QUICK, kill_all, processes, start_worker, wait_until
from tests.servers.forge import Forge
from tests.servers.prefect_server import PrefectServer
from tests.servers.service import Service
from tests.timing import as_variables

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1200)]

SILENCE_S = 45.0
"""Longer than the interval of heartbeats, which is 30 seconds."""

HOST = {"environment": "host", "publish": "pull_request"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, forge: Forge) -> Iterator[Service]:
    """Yield a service whose Prefect server has no worker so far."""
    folder = tmp_path_factory.mktemp("whole")
    with PrefectServer.prepared(folder) as server:
        server.environment |= {
            **QUICK,
            **as_variables(heartbeat_silence_s=SILENCE_S, idle_s=0),
            FORGE: forge.url,
            TOKEN: forge.token,
            CACHE_VARIABLE: str(folder / "cache"),
        }
        with Service(server) as service:
            yield service


@pytest.fixture(autouse=True)
def _no_pulls(forge: Forge) -> None:
    """Forget the pull requests of the test before."""
    forge.pulls[NAME] = []


def waiting(marker: Path) -> str:
    """Return a command that a first try never ends, and a second one at once."""
    return f"test -e {marker} || {{ touch {marker}; sleep 900; }}"


def followed(service: Service, job_id: str) -> list[dict[str, Any]]:
    """Return all events of one connection to a job."""
    return list(service.events(job_id, seconds=600))


def counts(lake: Lake, job_id: str) -> tuple[int, int]:
    """Return the attempts and the model calls of a job on record."""
    attempts, calls = (lake.rows(name, f"job-{job_id}") for name in ("attempts", "llm_calls"))
    return len(attempts), len(calls)


def test_another_worker_continues_what_a_killed_one_had(
    service: Service, forge: Forge, tmp_path: Path
) -> None:
    """A job and a pipeline each end with one branch and one pull request. Nothing is bought twice,
    and a follower of the job stays connected."""
    marks, branches = [tmp_path / "job", tmp_path / "step"], {*forge.branches(NAME)}
    submitted = {
        **HOST,
        "source": NAME,
        "task": "Add, don't subtract.",
        "arms": [arm("able", f"{waiting(marks[0])}; {REPAIR}")],
    }
    definition = {
        **HOST,
        "name": "notes",
        "source": NAME,
        "arms": [arm("first", "echo a >A.md"), arm("second", f"{waiting(marks[1])}; cp A.md B.md")],
        "steps": [
            {"name": "make-notes", "task": "Make notes.", "arm": "first"},
            {"name": "copy", "task": "Copy.", "arm": "second", "depends_on": ["make-notes"]},
        ],
    }
    first = start_worker(service.server)
    workers = [first]
    try:
        job_id = service.post("/submit", submitted)["id"]
        service.post("/pipelines", definition)
        run_id = service.post("/pipelines/notes/run")["id"]
        wait_until(lambda: all(mark.exists() for mark in marks), 400)
        following = ThreadPoolExecutor(1)
        told = following.submit(followed, service, job_id)
        following.shutdown(wait=False)
        workers.append(start_worker(service.server))
        kill_all(first)
        done = service.wait_for(job_id, "done", "failed", "crashed", seconds=400)
        run = service.wait_for_run(run_id, "done", "failed", "crashed", seconds=400)
        events = told.result(timeout=120)
    finally:
        for worker in workers:
            kill_all(worker)
    assert (done["state"], run["state"]) == ("done", "done"), (done, run)
    assert {pull["html_url"] for pull in forge.pulls[NAME]} == {
        done["pull_request"],
        run["pull_request"],
    }
    assert len(forge.pulls[NAME]) == 2
    assert {*forge.branches(NAME)} - branches == {done["branch"], run["branch"]}
    lake = Lake.existing(str(service.lake))
    steps = [runs.step_id(run_id, name) for name in ("make-notes", "copy")]
    assert [counts(lake, each) for each in (job_id, *steps)] == [(1, 1)] * 3
    states = [event["job"]["state"] for event in events if event["type"] == "status"]
    assert "crashed" not in states
    assert events[-1] == {"type": "end", "state": "done"}
    keys = [event["key"] for event in events if event["type"] == "step"]
    assert len(keys) == len({*keys})


def test_a_job_that_begins_again_without_a_decision_publishes_nothing(
    service: Service, forge: Forge
) -> None:
    """Losing a worker is not an approval. The approval that follows continues it."""
    arms = [arm("able", REPAIR)]
    content = {**HOST, "source": NAME, "task": "Add, please.", "arms": arms, "approve": True}
    worker = start_worker(service.server)
    try:
        asked = service.post("/submit", content)
        path = f"/flow_runs/{asked['flow_run_id']}"
        wait_until(lambda: service.server.get(path)["state"]["type"] == "PAUSED", 400)
        # Prefect's worker ends if it takes a flow run again while it still has its process.
        wait_until(lambda: not processes(asked["flow_run_id"]))
        again = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}}
        service.server.post(f"{path}/set_state", again)
        wait_until(lambda: service.server.get(path)["state"]["type"] == "COMPLETED", 400)
        waiting = service.get(f"/status/{asked['id']}")
        assert (waiting["state"], forge.pulls[NAME]) == ("waiting", []), waiting
        service.post(f"/jobs/{asked['id']}/approve")
        done = service.wait_for(asked["id"], "done", "failed", "crashed", seconds=400)
    finally:
        kill_all(worker)
    assert done["state"] == "done", done
    assert len(forge.pulls[NAME]) == 1
