"""The deployments as an operator meets them: a server, a pool, a worker, the prefect command."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows import reporting
from flows.lake import Lake
from flows.progress import artifact_key

ROOT = Path(__file__).resolve().parents[2]
PREFECT = str(Path(sys.executable).with_name("prefect"))

pytestmark = pytest.mark.slow


@contextmanager
def process(command: list[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    """A program in a process group of its own, ended with the block."""
    with log.open("w") as output:
        running = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            yield
        finally:
            os.killpg(running.pid, signal.SIGTERM)
            try:
                running.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)  # how fast Prefect stops is not the subject
                running.wait()


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=2).read()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(url)


def test_the_smoke_deployment_runs_on_a_worker(tmp_path: Path) -> None:
    """Deployed as prefect.yaml says, the scheduled benchmark completes and leaves its report."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = {
        **os.environ,
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DURABENCH_LAKE": str(tmp_path / "lake"),
    }

    def prefect(*arguments: str) -> str:
        done = subprocess.run(
            [PREFECT, "--no-prompt", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    server = [PREFECT, "server", "start", "--host", "127.0.0.1", "--port", port]
    worker = [PREFECT, "worker", "start", "--pool", "durabench"]
    with process(server, environment, tmp_path / "server.log"):
        wait_for(f"http://127.0.0.1:{port}/api/health")
        prefect("work-pool", "create", "durabench", "--type", "process")
        prefect("deploy", "--all")
        assert "0 4 * * *" in prefect("deployment", "inspect", "benchmark/smoke")
        with process(worker, environment, tmp_path / "worker.log"):
            prefect("deployment", "run", "benchmark/smoke", "--watch")
        lake = Lake.existing(environment["DURABENCH_LAKE"])
        [name] = lake.experiments()
        assert name.startswith("smoke-")
        prefect("artifact", "inspect", artifact_key("progress", name))
        assert "Arms" in prefect("artifact", "inspect", artifact_key("report", name))
    resolved = {arm.name: arm.resolved for arm in reporting.read(lake, name).arms}
    assert resolved == {"mini": 2, "gold": 2, "null": 0}
    assert reporting.page_path(lake, name).is_file()
