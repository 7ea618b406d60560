"""Settings that the Prefect server needs, and checks of its current settings.

By default the server processes one event at a time and requires no password, although a flow run
runs commands on a worker.
"""

import ipaddress
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

POOL = "durabench"
"""Work pool of the deployments in prefect.yaml."""

CELLS_QUEUE, BENCHMARKS_QUEUE = "cells", "benchmarks"
QUEUES = (CELLS_QUEUE, BENCHMARKS_QUEUE)
"""Work queues of the pool, by priority.

A benchmark waits for its cells. On a separate worker, it takes no slot that its cells need.
"""

JOB_TAG = "durabench-job"
"""Tag of deployments whose dead flow runs are restarted. They have no other tag: flow runs with the
tag `durabench` become Crashed."""

DEPLOYMENTS = (
    "benchmark/benchmark",
    "benchmark/smoke",
    "solve/solve",
    "shard/shard",
    "job/job",
    "pipeline/pipeline",
    "grade/grade",
    "report/report",
)
"""Names of the deployments in prefect.yaml."""

CELLS = "durabench-cells"
"""Global concurrency limit over all cells of a server, in shards and in `solve`. Without it, cells
are unlimited."""

_FILES = "prefect.server.concurrency.lease_storage.filesystem"

WANTED: Mapping[tuple[str, ...], int | str | bool] = {
    ("server", "services", "task_run_recorder", "batch_size"): 500,
    ("server", "services", "task_run_recorder", "read_batch_size"): 100,
    ("server", "services", "event_persister", "batch_size"): 500,
    ("server", "services", "event_persister", "read_batch_size"): 100,
    # Jobs wait in a queue. The server would mark each one as late after 15 s, all at the same time,
    # and fail with "database is locked" on SQLite, again every 5 s.
    ("server", "services", "late_runs", "enabled"): False,
    # In memory, a restart of the server loses the holders of a deployment's concurrency limit, and
    # every flow run under one ends at its next renewal, within four minutes.
    ("server", "concurrency", "lease_storage"): _FILES,
    # With analytics on, it would send usage data and, without internet access, fill its log with
    # errors.
    ("server", "analytics_enabled"): False,
    # The pages ask 127.0.0.1, under whichever of the two names they were opened.
    ("server", "api", "cors_allowed_origins"): "http://127.0.0.1:4200,http://localhost:4200",
}
"""Server settings by their path in Prefect's own settings. A number is a minimum."""

AUTHENTICATION = "PREFECT_SERVER_API_AUTH_STRING"
"""The variable with the user and the password that the server requires of every request."""

CLIENTS = "PREFECT_API_AUTH_STRING"
"""The variable with the same text where clients and workers are started."""

_PLACEHOLDER = "durabench:A-LONG-RANDOM-TEXT"

DEFAULT_PORT = 4200

LONGEST_POLL_S = 2.0
"""Maximum time that a shard should wait for an idle worker."""


def new_credentials() -> str:
    """Return a user and a random password, for Prefect's basic authentication."""
    return f"durabench:{secrets.token_urlsafe(24)}"


def as_lines(credentials: str) -> list[str]:
    """Return the settings as lines of environment variables, with placeholders for the operator."""
    return [
        "# For every client of the server. Its pages ask for the same text.",
        f"{CLIENTS}={credentials}",
        "# For `prefect server start`.",
        f"{AUTHENTICATION}={credentials}",
        *(f"{_variable(path)}={str(value).lower()}" for path, value in WANTED.items()),
        f"# For another port than {DEFAULT_PORT}, which is also in the origins above; the option",
        "# --port does not reach the pages:",
        f"# PREFECT_SERVER_API_PORT={DEFAULT_PORT}",
        "# For programs and browsers on other machines:",
        "# PREFECT_SERVER_API_HOST=0.0.0.0",
        f"# PREFECT_SERVER_UI_API_URL=http://HOST:{DEFAULT_PORT}/api",
        "# With more than one worker, a separate PostgreSQL database:",
        "# PREFECT_SERVER_DATABASE_DRIVER=postgresql+asyncpg",
        "# PREFECT_SERVER_DATABASE_HOST=localhost",
        "# PREFECT_SERVER_DATABASE_PORT=5432",
        "# PREFECT_SERVER_DATABASE_NAME=prefect",
        "# PREFECT_SERVER_DATABASE_USER=prefect",
        "# PREFECT_SERVER_DATABASE_PASSWORD=",
        "# For `prefect worker start`: the interval between looks for work, in seconds.",
        f"# PREFECT_WORKER_QUERY_SECONDS={LONGEST_POLL_S:g}",
    ]


def open_api(url: str) -> str:
    """Return what to do about an API that answers requests without a password."""
    return (
        f"the Prefect API {url} requires no password, so anyone who reaches it, and any web page "
        f"in a browser here, can run commands on the workers: start its server with "
        f"{AUTHENTICATION} and its clients with {CLIENTS}; `durabench setup --env-file FILE` "
        "writes both"
    )


def missing_lines(settings: Mapping[str, Any], *, is_open: bool) -> list[str]:
    """Return the lines of environment variables that a server lacks.

    `is_open` is True if it answers requests without a password.
    """
    names = [*lacking(settings), *[AUTHENTICATION] * is_open]
    return [line for line in as_lines(_PLACEHOLDER) if line.partition("=")[0] in names]


def lacking(settings: Mapping[str, Any]) -> list[str]:
    """Return the variables that a server should change, based on its own `/admin/settings`."""
    missing = []
    for path, wanted in WANTED.items():
        value: Any = settings
        for name in path:
            value = value[name]
        if isinstance(wanted, bool):
            is_missing = bool(value) is not wanted
        elif isinstance(wanted, int):
            is_missing = value < wanted
        else:  # files and Redis are both fine, and so is any list of origins
            is_missing = str(value) == "*" or str(value).endswith(".memory")
        if is_missing:
            missing.append(_variable(path))
    return missing


def find_wrong_ui_port(settings: Mapping[str, Any], api_url: str) -> str | None:
    """Return the API address of the server's pages if its port is wrong, else None."""
    pages_ask = settings["server"]["ui"]["api_url"]
    if not pages_ask or _port(pages_ask) == _port(api_url):
        return None
    return str(pages_ask)


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _variable(path: tuple[str, ...]) -> str:
    return "_".join(("prefect", *path)).upper()


def database(settings: Mapping[str, Any]) -> str | None:
    """Return the kind of database, `postgresql` or `sqlite`; None if the server does not report it.

    A connection URL is a secret of the server; the driver is not.
    """
    driver = settings["server"]["database"]["driver"]
    return driver.partition("+")[0] if driver else None


def is_local(api_url: str | None) -> bool:
    """Return True if an API is on this machine. A private server of a command always is."""
    host = urlsplit(api_url or "").hostname or "localhost"
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
