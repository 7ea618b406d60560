"""A local OpenAI-compatible chat server whose answers and faults are scripted.

In a test:

    with OpenAIServer([rate_limited(retry_after="0.1"), command("ls")]) as server:
        ...  # server.url is the `api_base`, server.requests are the requests so far

`serve_apart` runs it as a separate process, for benchmarks.
"""

import itertools
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Reply:
    """The response to one request."""

    body: dict[str, Any] | str = ""
    """A JSON document, or the literal text to send."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    """Time to wait before answering."""
    drop: bool = False
    """Close the connection instead of answering."""
    missing: int = 0
    """Number of bytes at the end that are lost: the connection is closed before them."""


Script = Callable[[dict[str, Any]], Reply]
"""A function from a parsed request body to its reply."""

PROBE = b"One small request before a run."
"""The beginning of the request with which a run looks whether a model can be used."""

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def completion(
    message: dict[str, Any],
    *,
    usage: dict[str, Any] | None = None,
    finish_reason: str = "stop",
    model: str = "test-model",
) -> Reply:
    """Return a chat completion with one choice."""
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return Reply(
        {
            "id": "chatcmpl-test",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": model,
            "choices": [choice],
            "usage": usage or USAGE,
        }
    )


def text(content: str | None, **options: Any) -> Reply:
    """Return an answer without a tool call."""
    return completion({"role": "assistant", "content": content}, **options)


def command(shell: str, **options: Any) -> Reply:
    """Return an answer that calls the `bash` tool."""
    call = {"name": "bash", "arguments": json.dumps({"command": shell})}
    message = {
        "role": "assistant",
        "content": "I run a command.",
        "tool_calls": [{"id": "call_test", "type": "function", "function": call}],
    }
    return completion(message, finish_reason="tool_calls", **options)


def error(status: int, message: str, *, code: str | None = None, **headers: str) -> Reply:
    """Return an error document in the provider's form."""
    document = {"error": {"message": message, "type": "test_error", "param": None, "code": code}}
    return Reply(document, status, headers)


def rate_limited(retry_after: str | None = None) -> Reply:
    """Return status 429. `retry_after` is the text of the header: seconds or an HTTP date."""
    reply = error(429, "Rate limit reached for requests", code="rate_limit_exceeded")
    return reply if retry_after is None else replace(reply, headers={"Retry-After": retry_after})


def out_of_quota() -> Reply:
    """Return status 429 for an exhausted quota, which no waiting solves."""
    return error(429, "You exceeded your current quota", code="insufficient_quota")


def server_error() -> Reply:
    """Return status 500."""
    return error(500, "The server had an error")


def unauthorised() -> Reply:
    """Return status 401."""
    return error(401, "Incorrect API key provided", code="invalid_api_key")


def context_window() -> Reply:
    """Return status 400 for a conversation that is too long."""
    detail = "This model's maximum context length is 8192 tokens, your messages have 9000."
    return error(400, detail, code="context_length_exceeded")


def malformed() -> Reply:
    """Return status 200 with a body that is cut off in the middle of its JSON."""
    return Reply('{"id": "chatcmpl-test", "object": "chat.comp')


def empty_choices() -> Reply:
    """Return status 200 without a choice."""
    reply = text("")
    assert isinstance(reply.body, dict)
    return replace(reply, body={**reply.body, "choices": []})


def dropped() -> Reply:
    """Close the connection without an answer."""
    return Reply(drop=True)


def slow(seconds: float, reply: Reply) -> Reply:
    """Return the same reply with a delay."""
    return replace(reply, delay_s=seconds)


def in_order(replies: Sequence[Reply]) -> Script:
    """Return a script that gives the replies in order. Any further request gets status 400."""
    upcoming = itertools.chain(replies, itertools.repeat(error(400, "the script ran out")))
    lock = threading.Lock()

    def script(body: dict[str, Any]) -> Reply:
        with lock:
            return next(upcoming)

    return script


def by_turn(replies: Sequence[Reply]) -> Script:
    """Return a script that gives reply n to a conversation with n assistant messages.

    The last reply repeats.
    """

    def script(body: dict[str, Any]) -> Reply:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        return replies[min(turn, len(replies) - 1)]

    return script


class _Quiet(ThreadingHTTPServer):
    """A server that says nothing of clients that have closed their connections."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class OpenAIServer:
    """A server for `POST /v1/chat/completions` that runs during the `with` block."""

    def __init__(
        self,
        script: Sequence[Reply] | Script,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        keep_requests: bool = True,
        on_probe: Script = lambda body: text("Yes."),
    ) -> None:
        """Answer with a script, and the small request before a run with `on_probe`."""
        self.on_probe: Script = on_probe
        self.script = script if callable(script) else in_order(script)
        self.requests: list[dict[str, Any]] = []
        """Request bodies in the order of their arrival; empty if they are not kept."""
        self.request_headers: list[dict[str, str]] = []
        self.sent: list[tuple[str, bytes]] = []
        """Method with path, and body of each request as it was sent; empty if they are not kept."""
        self.began: list[float] = []
        """Arrival time of each request, by the monotonic clock."""
        self._keep_requests = keep_requests
        self._http = _Quiet((host, port), _handler(self))
        self._http.daemon_threads = True

    @property
    def url(self) -> str:
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    def __enter__(self) -> "OpenAIServer":
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def serve_forever(self) -> None:
        """Serve in this thread until the process is interrupted."""
        self._http.serve_forever()

    def answer(self, line: str, sent: bytes, headers: dict[str, str]) -> Reply:
        body = json.loads(sent)
        if PROBE in sent:  # no call of an arm
            return self.on_probe(body)
        self.began.append(time.monotonic())
        if self._keep_requests:
            self.requests.append(body)
            self.request_headers.append(headers)
            self.sent.append((line, sent))
        return self.script(body)


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are two small writes, and a kept-alive connection would wait
        # 40 ms for an acknowledgement between them.
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            sent = self.rfile.read(length)
            line = f"{self.command} {self.path}"
            reply = server.answer(line, sent, {k.lower(): v for k, v in self.headers.items()})
            time.sleep(reply.delay_s)
            try:
                if reply.drop:
                    self._drop()
                elif (
                    json.loads(sent).get("stream")
                    and isinstance(reply.body, dict)
                    and reply.status == 200
                ):
                    self._send(_as_stream(reply))
                else:
                    self._send(reply)
            except OSError:
                self.close_connection = True  # the client has closed the connection

        def _drop(self) -> None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def _send(self, reply: Reply) -> None:
            content = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
            payload = content.encode()
            self.send_response(reply.status)
            if "Content-Type" not in reply.headers:
                self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(payload[: len(payload) - reply.missing])
            self.wfile.flush()
            if reply.missing:
                self._drop()

        def log_message(self, *args: object) -> None:
            """Print nothing, to keep the terminal for the program under test."""

    return Handler


def _as_stream(reply: Reply) -> Reply:
    """Return a completion as server-sent events: each word, the calls, the end, and the usage."""
    assert isinstance(reply.body, dict)
    base = {**reply.body, "object": "chat.completion.chunk"}
    usage = base.pop("usage", None)
    chunks = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for choice in reply.body["choices"]
        for delta, end in _split(choice)
    ]
    if usage is not None:
        chunks.append({**base, "choices": [], "usage": usage})
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return replace(
        reply,
        body="".join([*lines, "data: [DONE]\n\n"]),
        headers={**reply.headers, "Content-Type": "text/event-stream"},
    )


def _split(choice: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Yield the parts of a choice, each with the reason for its end."""
    message = choice["message"]
    yield {"role": "assistant", "content": ""}, None
    for word in re.findall(r"\S+\s*", message.get("content") or ""):
        yield {"content": word}, None
    for index, call in enumerate(message.get("tool_calls") or ()):
        yield {"tool_calls": [{"index": index, **call}]}, None
    yield {}, choice["finish_reason"]


def _read_turns(path: Path) -> list[Reply]:
    entries = json.loads(path.read_text())
    return [command(entry) if isinstance(entry, str) else Reply(**entry) for entry in entries]


@contextmanager
def serve_apart(folder: Path, turns: Sequence[str | Reply]) -> Iterator[str]:
    """Run a server as a separate process, and yield its address.

    Turn n, a shell command or a reply, answers every conversation that holds n assistant messages.
    The last one repeats.
    """
    script = folder / "turns.json"
    script.write_text(json.dumps(turns, default=asdict))
    command = [sys.executable, __file__, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


if __name__ == "__main__":
    apart = OpenAIServer(by_turn(_read_turns(Path(sys.argv[1]))), keep_requests=False)
    print(apart.url, flush=True)
    apart.serve_forever()
