"""Prefect's API for one command: the configured server, or a private one.

The private server is Prefect's own, a fork of the command on a free loopback port with the user's
own Prefect database. It is started first, not on the flow's first request, so that it starts up
while this process is still importing and reading its data.
"""

import atexit
import ctypes
import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkProcess
from pathlib import Path

from agent.errors import InfrastructureError
from flows.server.first_contact import contact
from flows.server.settings import AUTHENTICATION, CLIENTS, new_credentials

_START_S = 120.0
"""Time for the private Prefect server of a command to start on a slow machine.

Its first start also creates its database.
"""

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

_LEVEL = "PREFECT_LOGGING_LEVEL"
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

            return PREFECT_API_URL.value() is not None
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
        os.environ[_LEVEL] = "CRITICAL"
        for name in _RUN_LOGGERS:
            os.environ[f"PREFECT_LOGGING_LOGGERS_{name.replace('.', '_').upper()}_LEVEL"] = "INFO"
            logging.getLogger(name).propagate = False
        # Prefect would print an error for every batch of records that a restarting server misses.
        logging.raiseExceptions = False
        # Its clients connect again. Their library prints the traceback of the lost connection.
        logging.getLogger("websockets").setLevel(logging.CRITICAL)
    if url := os.environ.get("PREFECT_API_URL"):
        contact(url)
        yield
        return
    from prefect.settings import PREFECT_API_URL

    if url := PREFECT_API_URL.value():  # only Prefect can read its profile
        contact(url)
        yield
        return
    with _private_server():
        yield


@contextmanager
def _private_server() -> Iterator[None]:
    """Start a private server, and direct this process to it during the block."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    url, credentials = f"http://127.0.0.1:{port}/api", new_credentials()
    # The fork shares the modules that this process has imported so far.
    server = multiprocessing.get_context("fork").Process(
        target=_serve, args=(port, credentials), daemon=True
    )
    server.start()
    # Stop the server at exit, not at the end of the flow: Prefect sends its last events when the
    # process exits, and would wait for a stopped server. Exit handlers run in reverse order of
    # registration.
    atexit.register(_stop, server)
    settings = {PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: credentials}
    with _in_every_thread(url, credentials), temporary_settings(settings):
        yield


@contextmanager
def _in_every_thread(url: str, credentials: str) -> Iterator[None]:
    """Make the API the global setting during the block.

    Settings of a context do not reach the thread that sends what runs log: Prefect would start
    another server for it.
    """
    from prefect.context import refresh_global_settings_context

    variables = {"PREFECT_API_URL": url, PRIVATE: url, CLIENTS: credentials}
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    refresh_global_settings_context()
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        refresh_global_settings_context()


def settle() -> None:
    """Exempt everything imported so far from garbage collection.

    Imports create a million objects. Scanning all of them takes a second, from time to time and
    once more when the process ends. Without this, `python -m tests.bench mini` measures a sixth
    more processor time.
    """
    gc.freeze()


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


def _serve(port: int, credentials: str) -> None:
    """Run Prefect's server in a fork, without what a single command does not need."""
    os.setsid()  # Ctrl-C goes to the command, which stops the server itself
    if sys.platform == "linux":  # ends with its parent, also if that is killed
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):  # multiprocessing has closed the input
        os.dup2(nowhere, output)
    # Other users of the machine and web pages in a browser also reach the port.
    os.environ[AUTHENTICATION] = credentials
    from prefect.cli.server import start
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()
    settle()
    start(host="127.0.0.1", port=port, ui=False, scheduler=False, late_runs=False, analytics=False)


def _stop(server: ForkProcess) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C would leave the server
    server.terminate()
    server.join(timeout=10)
    if server.is_alive():
        server.kill()
