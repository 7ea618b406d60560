"""A model server that counts its requests, and journals in either database."""

import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from flows.storage.journals import VARIABLE
from tests.servers.postgres import PostgresServer

NewJournal = Callable[[], str | None]
"""A function that gives this process a new, empty journal. It returns the URL, or None for
SQLite in the lake."""


class JsonServer:
    """A loopback server that answers each POST of a JSON document in a separate thread."""

    def __init__(self, answer: Callable[[Any], object]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                content = json.dumps(answer(json.loads(body))).encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    self.close_connection = True  # the caller is dead

            def log_message(self, *arguments: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class CountingServer(JsonServer):
    """A server that counts its requests, independently of any journal."""

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, int]]()
        """Number of requests by scope and by number of the call within the scope."""
        self.began: list[float] = []
        """Arrival time of each request, by the monotonic clock."""
        self.latency_s = 0.0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._lock = threading.Lock()
        super().__init__(self._answer)

    def _answer(self, call: dict[str, Any]) -> dict[str, str]:
        with self._lock:
            self.began.append(time.monotonic())
            self.counts[call["scope"], call["number"]] += 1
        time.sleep(self.latency_s)
        self.may_answer.wait(timeout=60)
        return {}


@pytest.fixture
def counting() -> Iterator[CountingServer]:
    server = CountingServer()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_journal(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> NewJournal:
    """Return a function that creates journals in one of the databases.

    Workspaces are created in the test's own folder.
    """
    server: PostgresServer | None = None
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def new() -> str | None:
        monkeypatch.delenv(VARIABLE, raising=False)
        if server is None:
            return None
        url = server.create_database()
        monkeypatch.setenv(VARIABLE, url)
        return url

    return new
