"""Experiments on a Prefect server: begun, watched and killed as operators and machines do."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from flows.storage import report_files
from flows.storage.lake import Lake
from reports.types import Report
from tests.servers.prefect_server import PrefectApi, PrefectServer

QUICK = {"PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_RUNNER_POLL_FREQUENCY": "1"}
"""Variables for workers that look for work all the time."""

IN_FLIGHT = 3
"""Flow runs of a worker at a time."""


def start_worker(server: PrefectServer) -> "subprocess.Popen[bytes]":
    limit = str(IN_FLIGHT)
    return server.begin("prefect", "worker", "start", "--pool", "durabench", "--limit", limit)


def kill_all(program: "subprocess.Popen[bytes]") -> None:
    """SIGKILL for a program and everything below it, whatever sessions those are in."""
    for pid in [*below(program.pid), program.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    program.wait(timeout=20)


def below(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            # The name is in parentheses and may hold anything.
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found = [child for child, parent in parents.items() if parent == pid]
    return [*found, *(each for child in found for each in below(child))]


def declared(**changes: Any) -> dict[str, Any]:
    """Two bundled instances on the host, two arms, run by the workers."""
    return {
        "name": "apart",
        "dataset": "bundled",
        "environment": "host",
        "execution": "distributed",
        "select": {"sample": 2},
        "arms": [
            {"name": "mini", "agent": "mini", "model": {"provider": "simulated", "skill": 1}},
            {"name": "null", "agent": "null"},
        ],
        "concurrency": 4,
        "evaluation_timeout_s": 120,
        **changes,
    }


def begin(server: PrefectServer, **changes: Any) -> "subprocess.Popen[bytes]":
    """`durabench run` of such an experiment."""
    content = declared(**changes)
    path = server.folder / f"{content['name']}.yaml"
    path.write_text(yaml.safe_dump(content))
    return server.begin("durabench", "run", str(path))


def expect(server: PrefectServer, program: "subprocess.Popen[bytes]", code: int = 0) -> None:
    """Wait for the end of a program, which has that exit code."""
    assert program.wait(timeout=600) == code, server.printed(program)


def report(server: PrefectServer, name: str) -> Report:
    return report_files.read(Lake.existing(server.folder / "lake"), name)


def resolved(server: PrefectServer, name: str) -> dict[str, int]:
    return {arm.name: arm.resolved for arm in report(server, name).arms}


def states(server: PrefectServer, name: str) -> list[str]:
    """Those of the flow runs of an experiment's cells."""
    chosen = {"flow_runs": {"tags": {"all_": [f"experiment:{name}"]}}, "limit": 200}
    return sorted(run["state"]["type"] for run in server.post("/flow_runs/filter", chosen))


def order(server: PrefectApi, name: str, parameters: dict[str, Any]) -> str:
    """Order a flow run of a deployment, as the UI does; its id."""
    [deployment] = [each for each in server.post("/deployments/filter", {}) if each["name"] == name]
    made = server.post(
        f"/deployments/{deployment['id']}/create_flow_run", {"parameters": parameters}
    )
    return str(made["id"])


def state(server: PrefectApi, run: str) -> str:
    return str(server.get(f"/flow_runs/{run}")["state"]["type"])


def wait_until(what: Callable[[], Any], seconds: float = 180) -> Any:
    """What it comes to, once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.5)
    return found
