"""A Prefect server that is unreachable for a while, as in an upgrade."""

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from flows.server.retry import patiently


class Server:
    """An HTTP server that answers with the given statuses in turn, and repeats the last one.

    A status of 0 closes the connection without an answer.
    """

    def __init__(self, *statuses: int) -> None:
        self.asked = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status = statuses[min(server.asked, len(statuses) - 1)]
                server.asked += 1
                if status:
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                """Suppress the request log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()

    async def ask(self) -> int:
        """Send a request. Return the status, or raise an error for an error status."""
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"http://127.0.0.1:{self._server.server_port}")
        return answer.raise_for_status().status_code

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def serving() -> Iterator[Callable[..., Server]]:
    """Yield a function that starts a server."""
    started: list[Server] = []

    def start(*statuses: int) -> Server:
        started.append(Server(*statuses))
        return started[-1]

    yield start
    for server in started:
        server.close()


async def test_a_server_that_comes_back(
    serving: Callable[..., Server],
    set_timings: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A request is retried until the server answers, and one line says that cells are waiting."""
    set_timings(server_patience_s=60, server_retry_s=0.01)
    server = serving(0, 503, 500, 200)
    assert await patiently(server.ask) == 200
    assert server.asked == 4
    assert capsys.readouterr().err.count("the Prefect server does not answer") == 1


async def test_a_client_error_is_not_retried(
    serving: Callable[..., Server], capsys: pytest.CaptureFixture[str]
) -> None:
    """A client error is not retried, because another try would get the same answer."""
    server = serving(404)
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        await patiently(server.ask)
    assert server.asked == 1
    assert capsys.readouterr().err == ""


async def test_patience_ends(
    serving: Callable[..., Server], set_timings: Callable[..., None]
) -> None:
    """After the time limit, the server's last error is raised."""
    set_timings(server_patience_s=0.2, server_retry_s=0.01)
    with pytest.raises(httpx.HTTPStatusError, match="503"):
        await patiently(serving(503).ask)
