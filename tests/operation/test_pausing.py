"""A flow run that is paused and resumed as from Prefect's UI."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import DockerException

from agent.workspaces import ownership
from flows.storage.lake import Lake
from tests.operation.running import declared, order, state, states, wait_until
from tests.servers.prefect_server import PrefectServer

pytestmark = [
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

SUSPENDED = {
    "type": "PAUSED",
    "name": "Suspended",
    "state_details": {"pause_reschedule": True, "pause_timeout": "2099-01-01T00:00:00Z"},
}
"""The state that the UI requests."""


def attempts(server: PrefectServer, name: str) -> list[dict[str, Any]]:
    """Return the rows of an experiment's attempts."""
    return Lake.existing(server.folder / "lake").rows("attempts", name)


def containers(attempts: Iterable[str]) -> list[Any]:
    """Return the containers of attempts, or none if there is no Docker daemon."""
    try:
        client = docker.from_env()
    except DockerException:
        return []
    labels = [f"{ownership.ATTEMPT}={attempt}" for attempt in attempts]
    return [
        each
        for label in labels
        for each in client.containers.list(all=True, filters={"label": label}, ignore_removed=True)
    ]


def processes(run: str) -> list[Path]:
    """Return the processes that work on a flow run."""
    return [path for path in Path("/proc").glob("[0-9]*") if run.encode() in environment(path)]


def environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:  # it has ended
        return b""


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(
    ("execution", "environment", "cells"),
    [pytest.param("local", "docker", 10, marks=pytest.mark.docker), ("distributed", "host", 4)],
)
def test_a_paused_benchmark_stops_and_resumes(
    server: PrefectServer, execution: str, environment: str, cells: int
) -> None:
    """A paused benchmark leaves no running process or container.

    Resumed, it completes the cells.
    """
    name = f"paused-{execution}"
    content = declared(name=name, execution=execution, environment=environment, concurrency=1)
    content["repeats"] = cells // 2
    content["arms"] = content["arms"][:1]
    run = order(server, "benchmark", {"experiment": content})
    wait_until(lambda: attempts(server, name))
    server.post(f"/flow_runs/{run}/set_state", {"state": SUSPENDED})
    wait_until(lambda: not processes(run))
    assert state(server, run) == "PAUSED"
    assert "RUNNING" not in states(server, name)
    assert containers(row["attempt_id"] for row in attempts(server, name)) == []
    done = [row for row in attempts(server, name) if row["outcome"] == "submitted"]
    assert 0 < len(done) < cells

    server.post(f"/flow_runs/{run}/resume", {})
    wait_until(lambda: state(server, run) == "COMPLETED", 400)
    rows = attempts(server, name)
    assert [row["outcome"] for row in rows] == ["submitted"] * cells
    assert all(row["billed_usd"] == pytest.approx(row["cost_usd"]) for row in rows)
