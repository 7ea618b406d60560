"""Start, watch and kill experiments on a Prefect server."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from flows.storage import report_files
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from reports.types import Report
from tests import waiting
from tests.servers.openai_server import OpenAIServer, by_turn, command, slow
from tests.servers.prefect_server import PrefectApi, PrefectServer
from tests.timing import as_variables

QUICK = {
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    "PREFECT_RUNNER_POLL_FREQUENCY": "1",
    **as_variables(fanout_poll_s=1.0, server_retry_s=0.5),
}
"""Environment variables that make programs poll at short intervals."""

TURNS = [*["ls"] * 7, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat README.md"]
CALL_S = 2.0

IN_FLIGHT = 3
"""Maximum number of concurrent flow runs of a worker."""


@contextmanager
def run_workers(server: PrefectServer, count: int) -> Iterator[None]:
    """Run workers during the block, and kill them and their descendants afterwards.

    The server forgets them: others are not to wait for them.
    """
    workers = [start_worker(server) for _ in range(count)]
    try:
        yield
    finally:
        for worker in workers:
            kill_all(worker)
        for name in online(server):
            server.delete(f"/work_pools/durabench/workers/{quote(name)}")


def start_worker(server: PrefectServer) -> "subprocess.Popen[bytes]":
    limit = str(IN_FLIGHT)
    start = ("worker", "start", "--pool", "durabench", "--type", "process", "--limit", limit)
    return server.begin("prefect", *start)


def kill_all(program: "subprocess.Popen[bytes]") -> None:
    """Send SIGKILL to a program and all its descendants, in whatever sessions they are."""
    if program.poll() is not None:
        return  # another process may have its pid by now
    kill_below(program)
    program.kill()
    program.wait(timeout=20)


def kill_below(program: "subprocess.Popen[bytes]") -> None:
    """Send SIGKILL to all descendants of a program."""
    for pid in below(program.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def below(pid: int) -> list[int]:
    """Return the ids of all descendants of a process."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            # The name is in parentheses and may contain any character.
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found = [child for child, parent in parents.items() if parent == pid]
    return [*found, *(each for child in found for each in below(child))]


def declared(**changes: Any) -> dict[str, Any]:
    """Return an experiment of two arms on two bundled instances, run by workers on the host."""
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
    """Start `durabench run` of such an experiment."""
    content = declared(**changes)
    path = server.folder / f"{content['name']}.yaml"
    path.write_text(yaml.safe_dump(content))
    return server.begin("durabench", "run", str(path))


def expect(server: PrefectServer, program: "subprocess.Popen[bytes]", code: int = 0) -> None:
    """Wait for the end of a program and check its exit code."""
    assert program.wait(timeout=600) == code, server.printed(program)


def report(server: PrefectServer, name: str) -> Report:
    return report_files.read(Lake.existing(server.folder / "lake"), name)


def resolved(server: PrefectServer, name: str) -> dict[str, int]:
    return {arm.name: arm.resolved for arm in report(server, name).arms}


def shards(server: PrefectServer, name: str) -> list[dict[str, Any]]:
    """Return the flow runs of an experiment's shards."""
    chosen = {"flow_runs": {"tags": {"all_": [f"experiment:{name}"]}}, "limit": 200}
    found: list[dict[str, Any]] = server.post("/flow_runs/filter", chosen)
    return found


def states(server: PrefectServer, name: str) -> list[str]:
    """Those of the flow runs of an experiment's shards."""
    return sorted(run["state"]["type"] for run in shards(server, name))


def done(server: PrefectServer, name: str) -> int:
    """Return the number of cells of an experiment with a verdict."""
    return len(Lake.existing(server.environment["DURABENCH_LAKE"]).rows("evaluations", name))


def billed(lake: Path) -> int:
    """Return the number of calls in the ledger of a lake's journal."""
    journal = open_journal(Lake.existing(lake))
    return sum(journal.account(one.attempt_id).calls_billed for one in journal.find(""))


def slow_models(host: str = "127.0.0.1") -> OpenAIServer:
    """Return a model server for `slow_work`, whose calls are in flight most of the time."""
    return OpenAIServer(by_turn([slow(CALL_S, command(turn)) for turn in TURNS]), host=host)


def slow_work(models: OpenAIServer, **changes: Any) -> dict[str, Any]:
    """Return parameters of `benchmark`: two cells that make a call to these models per turn."""
    model = {"provider": "litellm", "name": "openai/any", "api_base": models.url}
    arms = [{"name": "mini", "agent": "mini", "model": model}]
    return {"experiment": declared(arms=arms, concurrency=2, **changes), "grade": False}


def online(server: PrefectServer) -> set[str]:
    """Return the names of the workers that are online."""
    found = server.post("/work_pools/durabench/workers/filter", {})
    return {worker["name"] for worker in found if worker["status"] == "ONLINE"}


def order(server: PrefectApi, name: str, parameters: dict[str, Any]) -> str:
    """Create a flow run of a deployment, as the UI does, and return its id."""
    [deployment] = [each for each in server.post("/deployments/filter", {}) if each["name"] == name]
    made = server.post(
        f"/deployments/{deployment['id']}/create_flow_run", {"parameters": parameters}
    )
    return str(made["id"])


def state(server: PrefectApi, run: str) -> str:
    return str(server.get(f"/flow_runs/{run}")["state"]["type"])


def wait_until(condition: Callable[[], Any], seconds: float = 180, every_s: float = 1.0) -> Any:
    """Wait as `tests.waiting` does, with the time that workers and their flow runs need."""
    return waiting.wait_until(condition, seconds=seconds, every_s=every_s)


def processes(run: str) -> list[Path]:
    """Return the processes that work on a flow run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if run.encode() in (process / "environ").read_bytes():
                found.append(process)
    return found
