"""A Prefect server with workers, as somebody runs it: programs that can be killed and started."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


class Installation:
    """One server on a free loopback port, a lake, and workers of the pool `durabench`."""

    def __init__(self, folder: Path, **environment: str) -> None:
        """`environment` is for all of its programs."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder = folder
        self.lake = folder / "lake"
        self.environment = {
            **os.environ,
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": f"http://127.0.0.1:{self.port}/api",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_WORKER_QUERY_SECONDS": "1",
            "PREFECT_RUNNER_POLL_FREQUENCY": "1",
            "DURABENCH_LAKE": str(self.lake),
            **environment,
        }
        self._programs: list[subprocess.Popen[bytes]] = []
        self._logs: dict[int, Path] = {}
        self._server: subprocess.Popen[bytes] | None = None

    def start_server(self) -> None:
        """Start the server, or start it again, and wait until it answers."""
        command = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(self.port)]
        self._server = self._start(*command)
        url = f"{self.environment['PREFECT_API_URL']}/health"
        deadline = time.monotonic() + 120
        while True:
            with suppress(OSError):
                urllib.request.urlopen(url, timeout=2).read()
                return
            assert time.monotonic() < deadline, "the server does not come up"
            time.sleep(0.2)

    def kill_server(self) -> None:
        """As a power cut would."""
        assert self._server is not None
        kill_all(self._server)

    def deploy(self) -> None:
        """What an operator does once."""
        self.run("prefect", "work-pool", "create", "durabench", "--type", "process")
        self.run("prefect", "--no-prompt", "deploy", "--all")

    def start_worker(self, **environment: str) -> subprocess.Popen[bytes]:
        """A worker; what it runs are its children."""
        command = ["prefect", "worker", "start", "--pool", "durabench", "--limit", "3"]
        return self._start(*command, environment=environment)

    def experiment(self, **changes: Any) -> Path:
        """A file that declares two bundled instances on the host, run by the workers."""
        declared = {
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
        path = self.folder / f"{declared['name']}.yaml"
        path.write_text(yaml.safe_dump(declared))
        return path

    def begin(self, *command: str) -> subprocess.Popen[bytes]:
        """A command that goes on by itself; its output is `output(process)`."""
        return self._start(*command)

    def run(self, *command: str, code: int = 0) -> str:
        """A command to its end; what it printed."""
        done = self._start(*command)
        assert done.wait(timeout=400) == code, self.output(done)
        return self.output(done)

    def output(self, program: subprocess.Popen[bytes]) -> str:
        """What a program has printed until now."""
        return self._logs[program.pid].read_text()

    def close(self) -> None:
        """End every program, with what it started."""
        for program in reversed(self._programs):
            kill_all(program)

    def _start(
        self, *command: str, environment: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        number = len(self._programs)
        arguments = [str(BIN / command[0]), *command[1:]]
        log = self.folder / f"{number}-{command[0]}.log"
        with log.open("w") as output:
            program = subprocess.Popen(
                arguments,
                cwd=ROOT,
                env={**self.environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._logs[program.pid] = log
        self._programs.append(program)
        return program


def kill_all(program: subprocess.Popen[bytes]) -> None:
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


@contextmanager
def installation(folder: Path, **environment: str) -> Iterator[Installation]:
    """An installation with its deployments, ended with the block."""
    made = Installation(folder, **environment)
    try:
        made.start_server()
        made.deploy()
        yield made
    finally:
        made.close()
