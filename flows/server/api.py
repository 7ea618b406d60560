"""Prefect's API for one command: the configured server, or a private one.

The private server is Prefect's own, a fork of the command on a free loopback port with the user's
own Prefect database. It is started first, not on the flow's first request, so that it starts up
while this process is still importing, and checking what it was given.

The first contact detects a wrong address of a configured server at once. Later outages are retried
(`flows.server.retry`), and Prefect's own client waits for minutes. A server that never answered is
more often a mistake than a restart.
"""

import atexit
import base64
import ctypes
import logging
import multiprocessing.connection
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from agent.errors import InfrastructureError, one_line
from agent.timings import timings
from flows.server.settings import AUTHENTICATION, CLIENTS, new_credentials

_START_S = 120.0
"""Time for the private Prefect server of a command to start on a slow machine.

Its first start also creates its database.
"""

_RESTARTS = 5
"""How often the private server is started again. One that ends each time has another problem."""

_PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>

VARIABLES = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_SERVER_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_CLASS": "flows.server.console.ConsoleHandler",
    # As in prefect.yaml. A server that `durabench setup` has prepared marks the flow run of a
    # killed command as Crashed, and with Prefect's own interval also a living command's flow run.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # It takes half a second of the start of a server. Storing a block registers its type.
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    # Prefect would note that it has registered them, and a later server of the user would not.
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
}
"""Variables of a command's programs. Those that are already set take precedence."""

PRIVATE = "DURABENCH_PRIVATE_API"
"""The variable with the URL of the private server, for the processes of its command."""

_LEVEL, _INTERNAL_LEVEL = "PREFECT_LOGGING_LEVEL", "PREFECT_INTERNAL_LOGGING_LEVEL"
_RUN_LOGGERS = ("prefect.flow_runs", "prefect.task_runs")


def is_private() -> bool:
    """Return True if the server ends with its command, so that its runs are not watched."""
    return PRIVATE in os.environ


def has_server() -> bool:
    """Return True if Prefect has an API here: a configured one, or the private one of a command.

    Prefect takes a second to import, so its files are looked for first.
    """
    if os.environ.get("PREFECT_API_URL"):
        return True
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml"))
    for path in (profiles, Path("prefect.toml"), Path("pyproject.toml"), Path(".env")):
        content = b""
        with suppress(OSError):
            content = path.read_bytes().lower()
        is_of_prefect = b"prefect" in content or path.name in ("profiles.toml", "prefect.toml")
        if is_of_prefect and b"api" in content:
            from prefect.settings import PREFECT_API_URL

            return bool(PREFECT_API_URL.value())
    return False


@contextmanager
def prefect_api() -> Iterator[None]:
    """Provide an API for the flows of this process during the block.

    Raises:
        InfrastructureError: the configured server does not answer, or is not a Prefect server.
    """
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
    if _LEVEL not in os.environ:  # an operator who sets a level wants Prefect's own output
        # Send the records of runs to the server only: commands print their own progress and errors.
        # Prefect reads these variables when it is imported.
        os.environ[_LEVEL] = os.environ[_INTERNAL_LEVEL] = "CRITICAL"
        for name in _RUN_LOGGERS:
            os.environ[f"PREFECT_LOGGING_LOGGERS_{name.replace('.', '_').upper()}_LEVEL"] = "INFO"
            logging.getLogger(name).propagate = False
        # Prefect would print an error for every batch of records that a restarting server misses.
        logging.raiseExceptions = False
        # Its clients connect again. Their library prints the traceback of the lost connection, and
        # its services the number of items that they could not send.
        for name in ("websockets", "EventsWorker", "APILogWorker"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    if has_server():
        from prefect.settings import PREFECT_API_URL

        contact(str(PREFECT_API_URL.value()))
        yield
        return
    with _private_server():
        yield


@contextmanager
def _private_server() -> Iterator[None]:
    """Start a private server, and direct this process to it during the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    url, credentials = f"http://127.0.0.1:{port}/api", new_credentials()
    server = _PrivateServer(port, credentials)
    # Stop the server at exit, not at the end of the flow: Prefect sends its last events when the
    # process exits, and would wait for a stopped server. Exit handlers run in reverse order of
    # registration.
    atexit.register(server.stop)
    variables = {"PREFECT_API_URL": url, PRIVATE: url, CLIENTS: credentials}
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    _refresh_settings()
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        _refresh_settings()


def _refresh_settings() -> None:
    """Make Prefect read the variables again if it has read them.

    They become its global settings. Settings of a context do not reach the thread that sends what
    runs log: Prefect would start another server for it.
    """
    if "prefect" in sys.modules:
        from prefect.context import refresh_global_settings_context

        refresh_global_settings_context()


async def wait_until_ready() -> None:
    """Return once the API answers.

    Raises:
        InfrastructureError: the API does not answer within the time that a slow machine needs.
    """
    import anyio
    from prefect.client.orchestration import get_client

    error: Exception | None = None
    with anyio.move_on_after(_START_S):
        async with get_client() as client:
            while error := await client.api_healthcheck():  # noqa: ASYNC110 - it is remote
                await anyio.sleep(0.05)
            return
    raise InfrastructureError(f"Prefect's server does not answer: {error}; run again")


def _serve(port: int, credentials: str, parent: int) -> None:
    """Run Prefect's server below a command, without what a single command does not need."""
    os.setsid()  # Ctrl-C goes to the command, which stops the server itself
    if sys.platform == "linux":  # ends with its parent, also if that is killed
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return  # it was killed before
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):  # multiprocessing has closed the input
        os.dup2(nowhere, output)
    # Other users of the machine and web pages in a browser also reach the port.
    os.environ[AUTHENTICATION] = credentials
    from prefect.cli.server import start
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()
    start(host="127.0.0.1", port=port, ui=False, scheduler=False, late_runs=False, analytics=False)


class _PrivateServer:
    """Prefect's server in a child of this process, which is started again if it was killed.

    Prefect's clients repeat requests for minutes, and its exit waits for the last events.
    """

    def __init__(self, port: int, credentials: str) -> None:
        self._arguments = port, credentials, os.getpid()
        self._lock, self._is_stopped = threading.Lock(), False
        # It imports Prefect at the same time as this process, which has not done so yet.
        self._process = self._start(multiprocessing.get_context("fork").Process)
        threading.Thread(target=self._restart, daemon=True).start()

    def stop(self) -> None:
        """Stop the server for good."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C would leave the server
        with self._lock:
            self._is_stopped = True
        self._process.terminate()
        self._process.join(timeout=10)
        self._process.kill()

    def _restart(self) -> None:
        for left in reversed(range(_RESTARTS + 1)):
            # The kernel ends a server together with the thread that has started it: stay.
            multiprocessing.connection.wait([self._process.sentinel])
            with self._lock:
                if self._is_stopped or not left:
                    return
                # A fork would copy locks that other threads hold by now.
                self._process = self._start(multiprocessing.get_context("spawn").Process)

    def _start(self, create: Callable[..., BaseProcess]) -> BaseProcess:
        process = create(target=_serve, args=self._arguments, daemon=True)
        process.start()
        return process


_CONTACT_S = 3.0
"""Time for a Prefect server to start listening."""

_VERSION_S = 30.0
"""Time for the second answer. It is longer, since the server is known to be Prefect by then."""

_AGAIN_S = 0.25

_MEND = (
    "start it (`prefect server start`), correct PREFECT_API_URL, or unset it to have a private "
    "server for each command"
)


def contact(url: str) -> str:
    """Return the version of the Prefect server at a URL once it answers; empty on Prefect Cloud.

    Raises:
        InfrastructureError: no server answers, it refuses the request, or it is not a Prefect
            server.
    """
    import httpx

    url = url.rstrip("/")
    try:
        with _client(url) as client:
            # Ask before importing Prefect, because the import can take longer than the answer.
            health = _read_first_answer(client, f"{url}/health")
            is_cloud = False
            if url.startswith("https:"):
                from prefect.settings import PREFECT_CLOUD_API_URL

                is_cloud = url.startswith(str(PREFECT_CLOUD_API_URL.value()))
            if not (_is_healthy(health) or (is_cloud and health.is_success)):
                raise _explain_health(client, url, health)
            return "" if is_cloud else _read_version(client, url)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise _failure(url, error) from None


def is_open(url: str) -> bool:
    """Return True if the API at a URL answers requests without a password.

    Raises:
        InfrastructureError: it no longer answers.
    """
    import httpx

    url = url.rstrip("/")
    try:
        with _client(url) as client:
            return bool(client.get(f"{url}/admin/version").is_success)
    except httpx.HTTPError as error:
        raise _failure(url, error) from None


def _client(url: str) -> Any:
    """Return a client that checks certificates as Prefect's own client does."""
    import httpx

    verify: bool | ssl.SSLContext = True
    if url.startswith("https:"):
        from prefect.settings import PREFECT_API_SSL_CERT_FILE, PREFECT_API_TLS_INSECURE_SKIP_VERIFY

        if PREFECT_API_TLS_INSECURE_SKIP_VERIFY.value():
            verify = False
        elif file := PREFECT_API_SSL_CERT_FILE.value():
            verify = ssl.create_default_context(cafile=file)
    return httpx.Client(verify=verify, timeout=timings().server_answer_s, follow_redirects=True)


def _read_first_answer(client: Any, url: str) -> Any:
    """Return the answer of a server that may still be starting."""
    import httpx

    deadline = time.monotonic() + _CONTACT_S
    while True:
        try:
            answer = client.get(url)
        except httpx.ConnectError:
            if time.monotonic() + _AGAIN_S > deadline:
                raise
        else:
            is_starting = answer.status_code in (502, 503, 504)
            if not is_starting or time.monotonic() + _AGAIN_S > deadline:
                return answer
        time.sleep(_AGAIN_S)


def _explain_health(client: Any, url: str, answer: Any) -> InfrastructureError:
    if answer.status_code in (401, 403):
        return _refusal(url, answer)
    if answer.status_code >= 500:
        return InfrastructureError(
            f"the Prefect API {url} answers with status {answer.status_code}: check the server's "
            "log, and run again"
        )
    if _is_healthy(client.get(f"{url}/api/health")):
        return InfrastructureError(
            f"{url} does not end with /api: set PREFECT_API_URL={url}/api, where the Prefect API is"
        )
    hint = "" if url.endswith("/api") else ", which ends with /api"
    return InfrastructureError(
        f"{url} does not answer as a Prefect API (status {answer.status_code} for {url}/health): "
        f"set PREFECT_API_URL to the address of one{hint}"
    )


def _is_healthy(answer: Any) -> bool:
    """Return True if this is an answer of the API; the web pages answer any path with a page."""
    try:
        return answer.is_success and answer.json() is True
    except ValueError:
        return False


def _read_version(client: Any, url: str) -> str:
    """Return the server's version, authenticated as Prefect's own client is."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_KEY

    headers = {}
    if auth := PREFECT_API_AUTH_STRING.value():
        headers["Authorization"] = f"Basic {base64.b64encode(auth.encode()).decode()}"
    elif key := PREFECT_API_KEY.value():
        headers["Authorization"] = f"Bearer {key}"
    answer = client.get(f"{url}/admin/version", headers=headers, timeout=_VERSION_S)
    if answer.status_code in (401, 403):
        raise _refusal(url, answer)
    try:
        return str(answer.raise_for_status().json())
    except ValueError:
        return ""


def _refusal(url: str, answer: Any) -> InfrastructureError:
    return InfrastructureError(
        f"the Prefect API {url} refuses with status {answer.status_code}: set "
        "PREFECT_API_AUTH_STRING (or PREFECT_API_KEY) to the server's credentials"
    )


def _failure(url: str, error: Exception) -> InfrastructureError:
    import httpx

    if isinstance(error, (httpx.UnsupportedProtocol, httpx.InvalidURL)):
        return InfrastructureError(
            f"PREFECT_API_URL={url} is not an address: write it as http://HOST:4200/api"
        )
    return InfrastructureError(f"the Prefect API {url} does not answer: {one_line(error)}; {_MEND}")
