"""An HTTP server that plays any provider or a foreign host."""

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agent.models.requests import Dialect

Body = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Listener:
    """A server that notes what it is sent, whatever the path."""

    answer: Callable[[Sent], Any] = lambda sent: {}
    sent: list[Sent] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    models: Any = None
    """The answer to a request for the list of models; None if there is no such list."""
    lists: dict[str, Any] = field(default_factory=dict)
    """Answers to requests for other lists, by path."""
    keys: list[str | None] = field(default_factory=list)
    """The keys of the requests for lists."""
    drops: bool = False
    """True to close each connection instead of an answer."""

    def __post_init__(self) -> None:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                sent = Sent(self.path, headers, json.loads(content or b"null"))
                listener.sent.append(sent)
                if listener.drops:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                payload = json.dumps(listener.answer(sent)).encode()
                self.send_response(listener.status)
                for name, value in listener.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)
                self.wfile.flush()

            def do_GET(self) -> None:
                if self.path.endswith("/models"):
                    listener.keys.append(self.headers.get("Authorization"))
                else:
                    listener.sent.append(Sent(self.path, dict(self.headers), None))
                models = listener.lists.get(self.path, listener.models)
                payload = json.dumps(models).encode()
                self.send_response(404 if models is None else listener.status)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)
                self.wfile.flush()

            def log_message(self, *args: object) -> None:
                """Print nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def answer_in(dialect: Dialect | str, usage: Any, **fields: Any) -> Body:
    """Return an answer of a provider, with a usage block of any kind."""
    if dialect == "messages":
        content = [{"type": "text", "text": "Hello."}]
        whole = {"id": "m", "type": "message", "role": "assistant", "model": "m"}
        return {**whole, "content": content, "stop_reason": "end_turn", "usage": usage, **fields}
    if dialect == "responses":
        part = {"type": "output_text", "text": "Hello.", "annotations": []}
        item = {"type": "message", "id": "i", "role": "assistant", "status": "completed"}
        whole = {"id": "r", "object": "response", "created_at": 1, "model": "m"}
        output = [{**item, "content": [part]}]
        return {**whole, "status": "completed", "output": output, "usage": usage, **fields}
    if dialect == "gemini":
        content = {"role": "model", "parts": [{"text": "Hello."}]}
        candidates = [{"content": content, "finishReason": "STOP", "index": 0}]
        return {"candidates": candidates, "usageMetadata": usage, **fields}
    message = {"role": "assistant", "content": "Hello."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return {**whole, "choices": [choice], "usage": usage, **fields}


def dialect_at(path: str) -> str:
    """Return the dialect of a provider's path."""
    if "generateContent" in path:
        return "gemini"
    if path.endswith("/messages"):
        return "messages"
    return "responses" if path.endswith("/responses") else "chat"
