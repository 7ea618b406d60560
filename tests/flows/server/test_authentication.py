"""Only clients with the password can use a Prefect server, also the private one of a command."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from flows.display.errors import UsageError
from flows.server.api import is_open
from flows.server.settings import AUTHENTICATION, CLIENTS
from flows.server.setup import write_settings
from tests.servers.prefect_home import copy_home, migrated
from tests.servers.prefect_server import CREDENTIALS, PrefectServer
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow]

PAGE = {"Origin": "https://page.example"}
"""The header that a browser adds to what a foreign web page sends."""

STRANGERS: list[dict[str, Any]] = [
    {"json": {}},
    {"json": {}, "headers": PAGE},
    {"content": "{}", "headers": {**PAGE, "Content-Type": "text/plain"}},  # without a preflight
    {"content": "{}", "headers": {**PAGE, "Content-Type": "application/json", "Host": "x.example"}},
    {"json": {}, "auth": ("durabench", "guessed")},
    {"json": {}, "auth": ("", "")},
    {"json": {}, "headers": {"Authorization": "Bearer durabench"}},
]
"""Requests that programs of other users and foreign web pages can send."""

PRIVATE = """
import asyncio, multiprocessing, os, httpx
from flows.server.api import prefect_api, wait_until_ready
with prefect_api():
    asyncio.run(wait_until_ready())
    from prefect.client.orchestration import get_client
    url = os.environ["PREFECT_API_URL"]
    with get_client(sync_client=True) as client:
        for kills in (1, 4, 0):
            print(client.read_flow_runs())
            print(httpx.post(f"{url}/flow_runs/filter", json={}).status_code)
            for _ in range(kills):
                (server,) = multiprocessing.active_children()
                server.kill()
                server.join()
                while not multiprocessing.active_children():
                    pass  # it starts again
print(os.environ.get("PREFECT_API_AUTH_STRING"))
"""

KILLED = """
import asyncio, multiprocessing, os, signal
from flows.server.api import prefect_api, wait_until_ready
with prefect_api():
    asyncio.run(wait_until_ready())
    (server,) = multiprocessing.active_children()
    server.kill()
    server.join()
    while not multiprocessing.active_children():
        pass
    os.kill(os.getpid(), signal.SIGKILL)
"""
"""A command that is killed while its private server starts again."""


@pytest.fixture
def unprotected(tmp_path: Path) -> Iterator[PrefectServer]:
    """Yield a server as `prefect server start` alone makes it."""
    with PrefectServer(tmp_path, **{AUTHENTICATION: ""}) as server:
        yield server


@pytest.mark.parametrize("request_", STRANGERS)
def test_strangers_begin_nothing(prefect_server: PrefectServer, request_: dict[str, Any]) -> None:
    """A deployment runs only for clients with the password; without it, nothing can be read."""
    flow = prefect_server.post("/flows/", {"name": "guarded"})["id"]
    deployment = prefect_server.post("/deployments/", {"name": "guarded", "flow_id": flow})["id"]
    begin = f"/deployments/{deployment}/create_flow_run"
    for path in (begin, "/flow_runs/filter", "/variables/filter", "/admin/database/clear"):
        assert httpx.post(f"{prefect_server.url}{path}", **request_).status_code == 401
    assert prefect_server.post(begin, {})["deployment_id"] == deployment


def test_pages_of_strangers_read_nothing(prefect_server: PrefectServer) -> None:
    """No answer allows a foreign page to read it, also those that need no password."""
    for method, path in [("GET", "/health"), ("OPTIONS", "/flow_runs/filter")]:
        asked = {**PAGE, "Access-Control-Request-Method": "POST"}
        answer = httpx.request(method, f"{prefect_server.url}{path}", headers=asked)
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.full
def test_commands_say_that_a_server_wants_no_password(unprotected: PrefectServer) -> None:
    """`doctor` and `setup` say so. `serve` does, too, and refuses an address for others."""
    assert is_open(unprotected.url)
    assert (
        f"{unprotected.url} requires no password" in unprotected.run("durabench", "doctor").stdout
    )
    assert f"{AUTHENTICATION}=" in unprotected.run("durabench", "setup").stdout
    token = {"DURABENCH_SERVICE_TOKEN": "a-token-of-the-service"}
    refused = unprotected.run("durabench", "serve", "--host", "0.0.0.0", "--port", "0", **token)
    assert refused.returncode == 2
    assert f"{unprotected.url} requires no password" in refused.stderr.splitlines()[-1]
    serving = unprotected.begin("durabench", "serve", "--port", "0")
    try:
        wait_until(lambda: "requires no password" in unprotected.printed(serving), seconds=120)
    finally:
        serving.terminate()
        serving.wait(60)


@pytest.mark.full
def test_commands_use_the_password(prefect_server: PrefectServer) -> None:
    """With it, a server is no problem. Without it or with another, the line names the variable."""
    assert not is_open(prefect_server.url)
    said = prefect_server.run("durabench", "doctor").stdout
    assert f"ok       Prefect API {prefect_server.url}" in said
    assert "password" not in said
    for given in ("", "durabench:guessed"):
        refused = prefect_server.run("durabench", "setup", **{CLIENTS: given})
        assert (refused.returncode, refused.stderr.count("\n")) == (3, 1), refused.stderr
        assert f"set {CLIENTS}" in refused.stderr


def test_the_private_server_of_a_command_is_its_own(tmp_path: Path) -> None:
    """Other users of the machine cannot use it, also when it was killed and has started again.

    It starts again five times, as often as the command allows, and the last one ends with it. The
    variable of the user is left as it was.
    """
    copy_home("migrated", migrated, tmp_path / "prefect")
    environment = {**os.environ, CLIENTS: CREDENTIALS, "PREFECT_API_URL": ""}
    environment["PREFECT_HOME"] = str(tmp_path / "prefect")
    printed = subprocess.run(
        [sys.executable, "-c", PRIVATE],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.splitlines() == [*(["[]", "401"] * 3), CREDENTIALS]


def test_a_killed_command_leaves_no_server(tmp_path: Path) -> None:
    """Its private server ends with it, even if the server has just been started."""
    copy_home("migrated", migrated, tmp_path / "prefect")
    own = {"PREFECT_API_URL": "", "PREFECT_HOME": str(tmp_path / "prefect")}
    subprocess.run([sys.executable, "-c", KILLED], env={**os.environ, **own}, check=False)

    def is_left(process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return process.environ().get("PREFECT_HOME") == own["PREFECT_HOME"]
        return False

    wait_until(lambda: not any(map(is_left, psutil.process_iter())), seconds=60, every_s=0.5)


def test_settings_with_a_password_are_private(tmp_path: Path) -> None:
    """Each file has a separate password, is readable by its owner only, and is not overwritten."""
    passwords = set()
    for name in ("one.env", "two.env"):
        file = tmp_path / name
        write_settings(file)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        lines = dict(each.split("=", 1) for each in file.read_text().splitlines() if "=" in each)
        assert lines[CLIENTS] == lines[AUTHENTICATION]
        passwords.add(lines[CLIENTS])
    assert len(passwords) == 2
    before = (tmp_path / "one.env").read_text()
    with pytest.raises(UsageError, match="exists and may have the password in use"):
        write_settings(tmp_path / "one.env")
    assert (tmp_path / "one.env").read_text() == before
