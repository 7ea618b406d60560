"""A local model API in the form of OpenAI's, with scripted replies and failures."""

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from agent.models import ModelRequest, ScriptedSpec
from agent.models.recorded import ScriptedModel


@dataclass(frozen=True)
class Asked:
    """One request that the API received."""

    turn: int
    """Number of replies that the conversation already had."""
    at: float
    """By the monotonic clock."""
    is_answered: bool
    """False if the API failed."""


class ModelApi:
    """The API, served on loopback within the block. It counts what it sold."""

    def __init__(
        self, replies: Sequence[dict[str, Any]], *, failing_turn: int | None = None, failures: int
    ) -> None:
        """Give reply n to a conversation that has n. Fail so many times before one of them."""
        self._model = ScriptedModel(ScriptedSpec(provider="scripted", replies=list(replies)))
        self._failing_turn, self._failures = failing_turn, failures
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        """The `api_base`."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def answered(self) -> list[int]:
        """The turns that were answered, in order. Each of these answers costs money."""
        return [each.turn for each in self.asked if each.is_answered]

    @property
    def failed(self) -> list[Asked]:
        """The requests at which the API failed."""
        return [each for each in self.asked if not each.is_answered]

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, body: dict[str, Any]) -> tuple[HTTPStatus, dict[str, Any]]:
        """Return the status and the document that answer a request."""
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        with self._lock:
            fails = turn == self._failing_turn and len(self.failed) < self._failures
            self.asked.append(Asked(turn, time.monotonic(), not fails))
        if fails:
            told = {"message": "the API is not available", "type": "server_error"}
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": told}
        reply = asyncio.run(self._model.complete(ModelRequest(body["messages"], number=turn)))
        paid = reply.usage.input_tokens, reply.usage.output_tokens
        return HTTPStatus.OK, {
            "id": f"reply-{turn}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [
                {"index": 0, "message": reply.message, "finish_reason": reply.finish_reason}
            ],
            "usage": {
                "prompt_tokens": paid[0],
                "completion_tokens": paid[1],
                "total_tokens": sum(paid),
            },
        }


def _handler(api: ModelApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # otherwise headers and body are two packets, and the second one waits

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            status, document = api.answer(json.loads(self.rfile.read(length)))
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            """Print nothing."""

    return Handler
