"""A local server with the one path of Anthropic's API to which LiteLLM sends messages.

In a test:

    with AnthropicServer() as server:
        ...  # server.url is the `api_base`, server.requests are the requests so far
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = {
    "id": "msg_test",
    "type": "message",
    "role": "assistant",
    "model": "claude-test",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 10,
        "cache_creation_input_tokens": 70,
        "cache_read_input_tokens": 20,
        "output_tokens": 5,
    },
}


class AnthropicServer:
    """A server that gives the same answer to every `POST /v1/messages` during the `with` block."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        """Request bodies in the order of their arrival."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.requests))
        self._http.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> "AnthropicServer":
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._http.shutdown()
        self._http.server_close()


def _handler(requests: list[dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            known = self.path == "/v1/messages"
            if known:
                requests.append(json.loads(body))
            payload = json.dumps(ANSWER if known else {"error": self.path}).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *args: object) -> None:
            """Print nothing, to keep the terminal for the program under test."""

    return Handler
