"""An unreachable Prefect server or a wrong address: one line within seconds, exit code 3."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent.errors import InfrastructureError
from agent.timings import timings
from flows.server.api import contact
from tests.servers.postgres import free_port


@pytest.fixture
def silent() -> Iterator[int]:
    """Yield the port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


def answering(answer: Callable[[str], tuple[int, bytes]]) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Suppress the request log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def web_server() -> Iterator[int]:
    """Yield the port of a web server that is not Prefect's."""
    yield from answering(lambda path: (404, b"no such page"))


@pytest.fixture
def pages() -> Iterator[int]:
    """Yield the port of a web server that answers every request with the same page."""
    yield from answering(lambda path: (200, b"<!doctype html>"))


@pytest.fixture
def pages_and_api() -> Iterator[int]:
    """Yield the port of a server with pages and the Prefect API below them, like Prefect's own."""

    def answer(path: str) -> tuple[int, bytes]:
        return (200, b"true" if path == "/api/health" else b"<!doctype html>")

    yield from answering(answer)


@pytest.fixture
def closed() -> int:
    """Return a port on which nothing listens."""
    return free_port()


@pytest.mark.parametrize(
    ("where", "path", "words"),
    [
        pytest.param(
            "closed",
            "/api",
            "does not answer: [Errno 111] Connection refused; start it",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "silent", "/api", "does not answer: timed out; start it", marks=pytest.mark.slow
        ),
        ("web_server", "", "to the address of one, which ends with /api"),
        ("web_server", "/api", "does not answer as a Prefect API (status 404"),
        ("pages", "/api", "does not answer as a Prefect API (status 200"),
        ("pages_and_api", "", "/api, where the Prefect API is"),
        ("pages_and_api", "/", "/api, where the Prefect API is"),
    ],
)
def test_an_address_without_a_prefect_api_fails_in_time(
    request: pytest.FixtureRequest, where: str, path: str, words: str
) -> None:
    """An address without a Prefect API fails within the time limit, with what to do about it."""
    port = request.getfixturevalue(where)
    began = time.monotonic()
    with pytest.raises(InfrastructureError) as failed:
        contact(f"http://127.0.0.1:{port}{path}")
    assert words in str(failed.value)
    assert time.monotonic() - began < timings().server_answer_s + 3


@pytest.mark.parametrize("url", ["localhost:4200/api", "127.0.0.1", "http://[::1", "nonsense"])
def test_an_invalid_address_is_refused(url: str) -> None:
    """An invalid address is refused, and the error shows the form of a valid one."""
    with pytest.raises(
        InfrastructureError, match="is not an address: write it as http://HOST:4200/api"
    ):
        contact(url)


@pytest.mark.full
@pytest.mark.slow
def test_every_command_fails_in_one_line_and_writes_nothing(closed: int, tmp_path: Path) -> None:
    """Without a reachable server, every command fails in one line with exit code 3 and writes
    nothing."""
    (tmp_path / "trial.yaml").write_text("name: t\narms: [{name: gold, agent: gold}]\n")
    (tmp_path / "preds.jsonl").write_text(
        '{"instance_id": "durabench__slotwise-1", "model_name_or_path": "m", "model_patch": ""}\n'
    )
    before = set(tmp_path.rglob("*"))
    commands = [
        ["run", "trial.yaml"],
        ["demo"],
        ["debug", "durabench__quillet-1", "--arm", "gold"],
        ["grade", "preds.jsonl", "--name", "x"],
        ["setup"],
    ]
    environment = {
        **os.environ,
        "PREFECT_API_URL": f"http://127.0.0.1:{closed}/api",
        "PREFECT_HOME": str(tmp_path.parent / "home"),
    }
    program = str(Path(sys.executable).with_name("durabench"))
    started = [
        subprocess.Popen(
            [program, *command, *(["--lake", "lake"] if command != ["setup"] else [])],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    for command, running in zip(commands, started, strict=True):
        _, errors = running.communicate(timeout=120)
        [line] = errors.strip().splitlines()
        assert (running.returncode, "Connection refused; start it" in line) == (3, True), command
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.slow
class TestDoctor:
    """The checks of `doctor` are independent: one that fails or hangs hides no other finding."""

    ALWAYS = ("Python 3", "git version", "GB free for", "model key")

    def said(self, tmp_path: Path, **variables: str) -> "tuple[int, list[str], float]":
        environment = {
            **os.environ,
            "PREFECT_HOME": str(tmp_path.parent / "home"),
            "PREFECT_API_URL": "",
            **variables,
        }
        began = time.monotonic()
        done = subprocess.run(
            [str(Path(sys.executable).with_name("durabench")), "doctor"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.stderr == ""
        for words in self.ALWAYS:
            assert words in done.stdout
        return done.returncode, done.stdout.splitlines(), time.monotonic() - began

    def test_it_makes_no_lake(self, tmp_path: Path) -> None:
        """`doctor` reports that there is no lake yet, and creates none."""
        code, lines, _ = self.said(tmp_path)
        assert code == 0
        assert any("lake: does not exist yet" in line for line in lines)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.full
    def test_a_journal_that_is_not_bound_to_the_lake(self, tmp_path: Path) -> None:
        """A journal to which the lake is not bound is a problem that names it. The right one is
        shown with its id."""
        from flows.storage import journals
        from flows.storage.lake import Lake

        lake = Lake.open(tmp_path / "lake")
        journal = journals.open_journal(lake)
        code, lines, _ = self.said(tmp_path)
        own = f"ok       journal sqlite:///{tmp_path}/lake/journal.sqlite, id {journal.id}"
        assert code == 0
        assert f"{own}: the lake is bound to it" in lines
        other = f"sqlite:///{tmp_path}/other.sqlite"
        code, lines, _ = self.said(tmp_path, DURABENCH_DATABASE_URL=other)
        [problem] = [line for line in lines if line.startswith("problem") and "lake /" in line][:1]
        assert code == 3
        assert other in problem
        assert not (tmp_path / "other.sqlite").exists()
