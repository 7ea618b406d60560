"""A real Prefect server with its own home folder on a free loopback port, and workers for it.

with PrefectServer.prepared(folder) as server, server.worker():
    ...
"""

import copy
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from agent.workspaces.host import allow_interrupts
from flows.server.settings import CLIENTS, as_lines
from tests.servers.postgres import free_port
from tests.servers.prefect_home import copy_home, merge_log, migrated
from tests.timing import as_variables

ROOT = Path(__file__).resolve().parents[2]
START_S, STOP_S = 600.0, 20.0
"""A start takes 6 s of processor time, which is minutes on an overloaded machine."""

PATIENT = as_variables(server_answer_s=60.0, doctor_check_s=180.0)
"""Time limits of programs that have to reach the server on a busy machine."""

_WITHOUT_BLOCKS = {
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
}
"""Storing a block registers its type. Registering all of them at the start takes a second."""


CREDENTIALS = "durabench:of-the-tests"
"""What the servers of the tests want of every client."""


# For plain HTTP: httpx would read all of certifi for a request, for 20 ms of processor time.
_request = partial(
    httpx.request,
    verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    auth=tuple(CREDENTIALS.split(":")),
)


class PrefectApi:
    """The API of a Prefect server at a URL."""

    def __init__(self, url: str) -> None:
        self.url = url

    def post(self, path: str, content: Any) -> Any:
        """Send a POST request and return the API's answer."""
        return self._ask("POST", path, content)

    def patch(self, path: str, content: Any) -> None:
        """Send a PATCH request."""
        self._ask("PATCH", path, content)

    def delete(self, path: str) -> None:
        """Send a DELETE request."""
        self._ask("DELETE", path)

    def get(self, path: str) -> Any:
        """Send a GET request and return the API's answer."""
        return self._ask("GET", path)

    def records(self, flow_run_id: str) -> list[dict[str, Any]]:
        """Return the log records of a flow run and its task runs."""
        asked = {"flow_run_id": {"any_": [flow_run_id]}}
        found: list[dict[str, Any]] = self.post(
            "/logs/filter", {"logs": asked, "sort": "TIMESTAMP_ASC"}
        )
        return found

    def refuses(self, path: str, content: Any) -> str:
        """Send a POST request that the API rejects and return the reason."""
        answer = _request("POST", f"{self.url}{path}", json=content, timeout=30)
        assert answer.is_client_error, answer.text
        return answer.text

    def _ask(self, method: str, path: str, content: Any = None) -> Any:
        for wait_s in (0.5, 1.0, 2.0, 4.0, 8.0):
            answer = _request(method, f"{self.url}{path}", json=content, timeout=180)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            time.sleep(wait_s)  # SQLite was locked; Prefect's own client retries, too
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None


class PrefectServer(PrefectApi):
    """A server with the settings that `durabench setup` requires, stopped with the context."""

    def __init__(self, folder: Path, **settings: str) -> None:
        """Prepare the server; `settings` are further variables of its environment.

        An empty one is not set.
        """
        self.folder = folder
        self.port = free_port()
        super().__init__(f"http://127.0.0.1:{self.port}/api")
        # Tests that run flows in this process silence Prefect's logging; an operator does not.
        own = {name: value for name, value in os.environ.items() if name != "PREFECT_LOGGING_LEVEL"}
        self.environment = {
            **own,
            "PREFECT_HOME": str(self.home),
            "PREFECT_API_URL": self.url,
            CLIENTS: CREDENTIALS,
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DURABENCH_LAKE": str(folder / "lake"),
            **PATIENT,
        }
        """Environment of all programs that use the server."""
        wanted = [line for line in as_lines(CREDENTIALS) if not line.startswith("#")]
        known = _WITHOUT_BLOCKS | dict(line.split("=", 1) for line in wanted) | settings
        self._settings = {name: text for name, text in known.items() if text}
        self._process: subprocess.Popen[bytes] | None = None
        self._logs: dict[int, Path] = {}

    @classmethod
    def prepared(cls, folder: Path) -> "PrefectServer":
        """Return a server after `durabench setup` and `prefect deploy --all`."""
        server = cls(folder)
        copy_home("prepared", _prepare, server.home)
        return server

    @property
    def home(self) -> Path:
        """Return the folder of the server's database, unless that is on PostgreSQL."""
        return self.folder / "prefect"

    def __enter__(self) -> "PrefectServer":
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.home.exists():
            copy_home("migrated", migrated, self.home)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server, always on the same port, and wait until it answers."""
        command = ["server", "start", "--host", "127.0.0.1", "--port", str(self.port)]
        environment = {**self.environment, **self._settings}
        self._process = _start(
            command_line("prefect", *command), environment, self.folder / "server"
        )
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            # A short time limit would leave a busy server with abandoned requests.
            with suppress(httpx.TransportError):
                if _request("GET", f"{self.url}/health", timeout=30).is_success:
                    return
            time.sleep(0.2)
        raise RuntimeError(f"no Prefect server: {(self.folder / 'server.log').read_text()[-2000:]}")

    def apart(self, folder: Path, **variables: str) -> "PrefectServer":
        """Return the same server for programs with a separate folder and further variables."""
        folder.mkdir(parents=True, exist_ok=True)
        other = copy.copy(self)
        other.folder = folder
        other.environment = {
            **self.environment,
            "DURABENCH_LAKE": str(folder / "lake"),
            **variables,
        }
        return other

    @property
    def pid(self) -> int:
        """Return the process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the server with the given signal."""
        if self._process is not None:
            _end(self._process, number)
        self._process = None

    def prefect(self, *arguments: str) -> str:
        """Run a `prefect` command, check that it succeeds, and return its output."""
        done = self.run("prefect", "--no-prompt", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(
        self, program: str, *arguments: str, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program of this environment, such as `durabench`, to its end."""
        return subprocess.run(
            command_line(program, *arguments),
            cwd=ROOT,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def begin(self, program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a program of this environment, which the caller has to end."""
        log = self.folder / f"{program}-{time.monotonic_ns()}"
        running = _start(command_line(program, *arguments), self.environment, log)
        self._logs[running.pid] = log.with_name(f"{log.name}.log")
        return running

    def printed(self, running: "subprocess.Popen[bytes]") -> str:
        """Return the output so far of a program that was started with `begin`."""
        return self._logs[running.pid].read_text()

    @contextmanager
    def worker(self, *options: str, **variables: str) -> "Iterator[subprocess.Popen[bytes]]":
        """Run a worker of the work pool `durabench` during the block."""
        command = command_line("prefect", "worker", "start", "--pool", "durabench", *options)
        log = self.folder / f"worker-{time.monotonic_ns()}"
        running = _start(command, {**self.environment, **variables}, log)
        try:
            yield running
        finally:
            _end(running, signal.SIGTERM)


def make_ready(server: PrefectServer) -> None:
    """Prepare a server as an operator would."""
    done = server.run("durabench", "setup")
    assert done.returncode == 0, done.stderr
    server.prefect("deploy", "--all")


def _prepare(home: Path) -> None:
    """Make the home of a prepared server."""
    with tempfile.TemporaryDirectory() as folder:
        with PrefectServer(Path(folder)) as server:
            make_ready(server)
        merge_log(server.home)
        shutil.copytree(server.home, home)


def command_line(name: str, *arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name(name)), *arguments]


def _start(command: list[str], environment: dict[str, str], log: Path) -> "subprocess.Popen[bytes]":
    with log.with_name(f"{log.name}.log").open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=allow_interrupts(),
        )


def _end(running: "subprocess.Popen[bytes]", number: int) -> None:
    """End a program and its process group."""
    try:
        os.killpg(running.pid, number)
    except ProcessLookupError:
        return
    try:
        running.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)  # the tests do not measure how fast Prefect stops
        running.wait()
