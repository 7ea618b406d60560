"""Events that a run sends to the Prefect server, read back through its API."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.server import events
from flows.server.artifacts import artifact_key
from flows.storage import journals
from flows.storage.lake import Lake
from tests.flows.conftest import trial
from tests.servers.prefect_server import PrefectServer

pytestmark = [pytest.mark.full, pytest.mark.slow]

ABLE = {"name": "able", "agent": "mini", "model": {"provider": "simulated", "skill": 1}}
GOLD = {"name": "gold", "agent": "gold"}
LOST = {"name": "lost", "agent": "mini", "model": {"provider": "recorded", "path": "/nowhere"}}

ARRIVAL_S = 30.0
"""Time limit for an event: the server stores the events every five seconds."""


def run(server: PrefectServer, folder: Path, code: int = 0, **changes: Any) -> str:
    """Run `durabench run` on a small experiment. Return the experiment's name."""
    declared = trial(primary=None, **changes)
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(declared.model_dump(mode="json")))
    done = server.run("durabench", "run", str(path), "--lake", str(folder / "lake"))
    assert done.returncode == code, done.stdout + done.stderr
    return declared.name


def told(server: PrefectServer, experiment: str, last: str, times: int) -> list[dict[str, Any]]:
    """Return the events of an experiment once `last` has arrived `times` times."""
    chosen = {"resource": {"id": [events.resource_id(experiment)]}}
    deadline = time.monotonic() + ARRIVAL_S
    while True:
        found = server.post("/events/filter", {"filter": chosen, "limit": 50})["events"]
        if sum(event["event"] == last for event in found) >= times:
            return found
        assert time.monotonic() < deadline, Counter(event["event"] for event in found)
        time.sleep(0.5)


def latest(server: PrefectServer, kind: str, experiment: str, folder: Path) -> Any:
    """Return the newest artifact of a kind."""
    key = artifact_key(kind, experiment, journals.lake_id(Lake.existing(folder / "lake")))
    return server.get(f"/artifacts/{key}/latest")


def test_events_and_artifacts_of_a_run_that_fails_and_resumes(
    prefect_server: PrefectServer, tmp_path: Path
) -> None:
    """Each share of a budget is reported once over all runs, a lost cell in every run. The last
    event and the artifacts of the benchmark's own flow run show how it ended."""
    small = {"budgets": {"experiment": {"calls": 3}}, "arms": [ABLE, LOST, GOLD]}
    for times in (1, 2):
        name = run(prefect_server, tmp_path, 3, name="broken", **small)
        found = told(prefect_server, name, events.INCOMPLETE, times)
    assert Counter(event["event"] for event in found) == {
        events.INCOMPLETE: 2,
        events.INFRASTRUCTURE: 4,
        "durabench.budget.50": 1,
        "durabench.budget.80": 1,
        "durabench.budget.100": 1,
    }
    [lost, *_] = [event for event in found if event["event"] == events.INFRASTRUCTURE]
    assert lost["payload"]["arm"] == "lost"
    assert "/nowhere" in lost["payload"]["detail"]
    assert "cell" in {each.get("prefect.resource.role") for each in lost["related"]}
    assert "flow-run" in {each.get("prefect.resource.role") for each in lost["related"]}
    table = latest(prefect_server, "cells", name, tmp_path)["data"]
    assert '"infrastructure"' in table.split("}")[0]
    assert table.count('"attempt"') == 6

    large = {"budgets": {"experiment": {"calls": 1000}}, "arms": [ABLE, GOLD]}
    run(prefect_server, tmp_path, name="broken", **large)
    found = told(prefect_server, name, events.FINISHED, 1)
    assert sum(event["event"].startswith(events.BUDGET) for event in found) == 3
    [finished] = [event for event in found if event["event"] == events.FINISHED]
    assert finished["payload"]["cells"] == {"done": 4}
    last = {
        kind: latest(prefect_server, kind, name, tmp_path)
        for kind in ("cells", "report", "progress")
    }
    assert "infrastructure" not in last["cells"]["data"]
    assert "Arms" in last["report"]["data"]
    assert finished["payload"]["page"] in last["report"]["description"]
    assert float(last["progress"]["data"]) == 100
    [owner] = {artifact["flow_run_id"] for artifact in last.values()}
    flow_run = prefect_server.get(f"/flow_runs/{owner}")
    assert flow_run["name"] == name
    assert prefect_server.get(f"/flows/{flow_run['flow_id']}")["name"] == "benchmark"
