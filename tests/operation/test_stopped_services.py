"""The services of the compose file that run flows, stopped while they are busy."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from agent.timings import timings
from tests.operation.running import (
    CALL_S,
    TURNS,
    billed,
    kill_all,
    order,
    slow_models,
    slow_work,
    state,
    wait_until,
)
from tests.servers.prefect_server import ROOT, PrefectServer
from tests.timing import slowdown

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ENDED = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


class Service:
    """The command of a service, run without a container."""

    def __init__(self, server: PrefectServer, name: str) -> None:
        compose = yaml.safe_load((ROOT / "flows" / "operation" / "compose.yaml").read_text())
        command = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", compose["services"][name]["command"])
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        with (server.folder / f"{name}-{time.monotonic_ns()}.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                cwd=ROOT,
                env={**server.environment, "PATH": path},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self) -> float:
        """Stop the service as compose does, and return the seconds until its end."""
        began_at = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=300)
        return time.monotonic() - began_at


@contextmanager
def running(server: PrefectServer) -> Iterator[dict[str, Service]]:
    """Run both services during the block, and yield them by name."""
    services = {name: Service(server, name) for name in ("worker", "benchmarks")}
    try:
        yield services
    finally:
        for service in services.values():
            kill_all(service.process)


@pytest.mark.parametrize(
    ("stopped", "execution"),
    [("benchmarks", "local"), pytest.param("worker", "distributed", marks=pytest.mark.full)],
)
def test_a_busy_service_is_stopped_in_seconds(
    server: PrefectServer, tmp_path: Path, stopped: str, execution: str
) -> None:
    """It starts no call any more, finishes its calls in flight and ends. Nothing is bought twice
    afterwards, and an idle one ends at once."""
    lake = tmp_path / "lake"
    with slow_models() as models, running(server) as services:
        work = slow_work(models, name=f"stopped-{stopped}", execution=execution)
        parameters = {**work, "lake": str(lake)}
        run = order(server, "benchmark", parameters)
        wait_until(lambda: len(models.began) >= 4, 400, 0.1)

        stopped_at, seconds = time.monotonic(), services[stopped].stop()
        began = len(models.began)
        print(f"{stopped} ended after {seconds:.1f} s; {began} calls, {billed(lake)} billed")
        assert seconds < timings().stop_grace_s * slowdown()
        assert max(models.began) < stopped_at + CALL_S
        assert billed(lake) == began < 2 * len(TURNS)

        services[stopped] = Service(server, stopped)
        if execution == "local":
            assert state(server, run) == "CRASHED"
            run = order(server, "benchmark", parameters)
        wait_until(lambda: state(server, run) in ENDED, 300)
        assert state(server, run) == "COMPLETED"
        assert len(models.began) == 2 * len(TURNS) == billed(lake)
        assert services[stopped].stop() < timings().stop_grace_s / 2 * slowdown()
