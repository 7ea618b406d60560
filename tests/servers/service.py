"""`durabench serve` on a free loopback port, beside a Prefect server.

with Service(prefect_server, folder) as service:
    service.client.post("/submit", json={...})
"""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx
from websockets.exceptions import ConnectionClosedOK
from websockets.sync.client import ClientConnection, connect

from flows.jobs.service.app import VARIABLE
from tests.servers.postgres import free_port
from tests.servers.prefect_server import PrefectServer
from tests.waiting import wait_until

START_S = 120.0
TOKEN = "a-token-of-the-service"


class Service:
    """A service as an operator runs it, with a token."""

    def __init__(self, server: PrefectServer, *options: str, **variables: str) -> None:
        self.server = server
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.headers = {"Authorization": f"Bearer {TOKEN}"}
        self.client = httpx.Client(base_url=self.url, headers=self.headers, timeout=60)
        self._options = options
        self._variables = {VARIABLE: TOKEN, **variables}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.stop()

    def start(self) -> None:
        """Start the service, always on the same port, and wait until it answers."""
        arguments = ["serve", "--port", str(self.port), *self._options]
        self._process = self.server.apart(self.server.folder, **self._variables).begin(
            "durabench", *arguments
        )
        wait_until(self._answers, seconds=START_S)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the service, and wait for that."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=30)
        self._process = None

    @property
    def lake(self) -> Path:
        """Return the folder of its lake."""
        return Path(self.server.environment["DURABENCH_LAKE"])

    def get(self, path: str, **options: Any) -> Any:
        """Return the answer to a GET request as JSON, which has to succeed."""
        answer = self.client.get(path, **options)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, content: Any = None, **options: Any) -> Any:
        """Return the answer to a POST request as JSON, which has to succeed."""
        answer = self.client.post(path, json=content, **options)
        assert answer.is_success, answer.text
        return answer.json()

    def refusal(self, method: str, path: str, **options: Any) -> tuple[int, str]:
        """Return the status and the line of an answer to a request that is refused."""
        answer = self.client.request(method, path, **options)
        message = answer.json()["error"]
        assert answer.is_client_error or answer.is_server_error
        assert "\n" not in message
        return answer.status_code, message

    def follow(self, job_id: str, headers: dict[str, str] | None = None) -> ClientConnection:
        """Open the WebSocket of a job, with the token unless other headers are given."""
        address = f"ws://127.0.0.1:{self.port}/ws/{job_id}"
        given = self.headers if headers is None else headers
        return connect(address, additional_headers=given, open_timeout=60)

    def events(self, job_id: str, *, seconds: float) -> Iterator[dict[str, Any]]:
        """Yield the events of a job until its socket is closed; each comes within `seconds`."""
        with self.follow(job_id) as socket, suppress(ConnectionClosedOK):
            while True:
                yield json.loads(socket.recv(timeout=seconds))

    def wait_for(self, job_id: str, *states: str, seconds: float = 120) -> dict[str, Any]:
        """Return the status of a job once it is in one of these states."""

        return self._wait_for(f"/status/{job_id}", states, seconds)

    def wait_for_run(self, run_id: str, *states: str, seconds: float = 120) -> dict[str, Any]:
        """Return a run of a pipeline once it is in one of these states."""
        return self._wait_for(f"/runs/{run_id}", states, seconds)

    def _wait_for(self, path: str, states: tuple[str, ...], seconds: float) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            status: dict[str, Any] = self.get(path)
            return status if status["state"] in states else None

        return wait_until(found, seconds=seconds, every_s=0.2)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.server.printed(self._process)
        try:
            return self.client.get("/health").is_success
        except httpx.TransportError:
            time.sleep(0.05)
            return False
