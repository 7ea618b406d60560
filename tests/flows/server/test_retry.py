"""A Prefect server that is unreachable for a while, as in an upgrade."""

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from flows.server.retry import patiently


class Server:
    """Answers each request with the next of its statuses, and every later one with the last.

    A status of 0 breaks the connection off.
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
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()

    async def ask(self) -> int:
        """Return the status of an answer that is no error."""
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"http://127.0.0.1:{self._server.server_port}")
        return answer.raise_for_status().status_code

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def serving() -> Iterator[Callable[..., Server]]:
    """A function that starts a server."""
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
    """Its answer counts, and one line says that cells are waiting."""
    set_timings(server_patience_s=60, server_retry_s=0.01)
    server = serving(0, 503, 500, 200)
    assert await patiently(server.ask) == 200
    assert server.asked == 4
    assert capsys.readouterr().err.count("the Prefect server does not answer") == 1


async def test_any_callable_can_ask(serving: Callable[..., Server]) -> None:
    """A lambda that returns the request is awaited as well as a coroutine function."""
    server = serving(200)
    assert await patiently(lambda: server.ask()) == 200


async def test_an_answer_about_the_request_is_not_asked_for_again(
    serving: Callable[..., Server], capsys: pytest.CaptureFixture[str]
) -> None:
    """Another try would get the same."""
    server = serving(404)
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        await patiently(server.ask)
    assert server.asked == 1
    assert capsys.readouterr().err == ""


async def test_patience_ends(
    serving: Callable[..., Server], set_timings: Callable[..., None]
) -> None:
    """With the server's last error, not one of the retries."""
    set_timings(server_patience_s=0.2, server_retry_s=0.01)
    with pytest.raises(httpx.HTTPStatusError, match="503"):
        await patiently(serving(503).ask)
