"""The Prefect server: what it needs for the load of cells, and what it says of itself.

Its defaults take one event at a time.
"""

import ipaddress
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

POOL = "durabench"
"""The work pool of prefect.yaml's deployments."""

DEPLOYMENTS = (
    "benchmark/benchmark",
    "benchmark/smoke",
    "solve/solve",
    "grade/grade",
    "report/report",
)
"""Those of prefect.yaml."""

CELLS = "durabench-cells"
"""The global concurrency limit over the flow runs of all cells of a server; without one, `solve`
goes on unlimited."""

_FILES = "prefect.server.concurrency.lease_storage.filesystem"

WANTED: Mapping[tuple[str, ...], int | str | bool] = {
    ("server", "services", "task_run_recorder", "batch_size"): 500,
    ("server", "services", "task_run_recorder", "read_batch_size"): 100,
    ("server", "services", "event_persister", "batch_size"): 500,
    ("server", "services", "event_persister", "read_batch_size"): 100,
    # In memory, a restart of the server forgets who holds a deployment's concurrency limit, and
    # every flow run under one ends at its next renewal, within four minutes.
    ("server", "concurrency", "lease_storage"): _FILES,
    # It would send usage data, and without a way out fill its log with failures to do so.
    ("server", "analytics_enabled"): False,
}
"""Settings of the server by where they are in Prefect's own; of numbers, the least."""

DEFAULT_PORT = 4200


def as_lines() -> list[str]:
    """The settings as a file of environment variables, with what only the operator knows."""
    return [
        "# For `prefect server start`.",
        *(f"{_variable(path)}={_text(value)}" for path, value in WANTED.items()),
        f"# With a --port other than {DEFAULT_PORT}, or for browsers on other machines:",
        "# PREFECT_SERVER_UI_API_URL=http://HOST:PORT/api",
        "# With more than one worker, a PostgreSQL database of its own:",
        "# PREFECT_SERVER_DATABASE_DRIVER=postgresql+asyncpg",
        "# PREFECT_SERVER_DATABASE_HOST=localhost",
        "# PREFECT_SERVER_DATABASE_PORT=5432",
        "# PREFECT_SERVER_DATABASE_NAME=prefect",
        "# PREFECT_SERVER_DATABASE_USER=prefect",
        "# PREFECT_SERVER_DATABASE_PASSWORD=",
    ]


def lacking(settings: Mapping[str, Any]) -> list[str]:
    """The variables that a server should set otherwise, by its own `/admin/settings`."""
    return [_variable(path) for path, wanted in WANTED.items() if _lacks(settings, path, wanted)]


def _lacks(settings: Mapping[str, Any], path: tuple[str, ...], wanted: int | str | bool) -> bool:
    there: Any = settings
    for name in path:
        there = there[name]
    if isinstance(wanted, bool):
        return bool(there) is not wanted
    if isinstance(wanted, int):
        return bool(there < wanted)
    return str(there).endswith(".memory")  # files or Redis are both well


def _text(value: int | str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def misdirected_ui(settings: Mapping[str, Any], api_url: str) -> str | None:
    """Where the server's pages look for its API, if that is another port than the API has."""
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
    """The kind of database, `postgresql` or `sqlite`; None where the server does not tell.

    A connection URL is a secret of the server; the driver is not.
    """
    driver = settings["server"]["database"]["driver"]
    return driver.partition("+")[0] if driver else None


def is_local(api_url: str | None) -> bool:
    """Whether an API is on this machine; one that a command starts for itself always is."""
    host = urlsplit(api_url or "").hostname or "localhost"
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
