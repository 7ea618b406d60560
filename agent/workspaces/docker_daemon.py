"""The Docker daemon of this process: its client, its errors in plain words, and its disk."""

import asyncio
import functools
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from agent.errors import WorkspaceError, one_line
from agent.workspaces.limits import GB

_CLIENT_LOCK = threading.Lock()
_CONFLICT = 409

_log = logging.getLogger(__name__)


async def docker_available() -> str | None:
    """Return None if a Docker daemon responds, otherwise the reason in one line."""

    def ping() -> str | None:
        try:
            with docker_errors("none"):
                client().ping()
        except WorkspaceError as error:
            return str(error)
        return None

    return await asyncio.to_thread(ping)


def client() -> Any:
    """Return the Docker client of the whole process. Connecting asks the daemon for its version."""
    with _CLIENT_LOCK:
        return _connect()


@functools.cache
def _connect() -> Any:
    import docker  # takes a third of a second, which host workspaces should not pay

    return docker.from_env(max_pool_size=64)


@contextmanager
def docker_errors(image: str) -> Iterator[None]:
    """Convert errors of the Docker client to a `WorkspaceError` that says what to do."""
    from docker.errors import APIError, DockerException, ImageNotFound
    from requests import RequestException

    try:
        yield
    except ImageNotFound as error:
        raise WorkspaceError(
            f"there is no image {image} on this machine: get it with `docker pull {image}`, or "
            "with `durabench images build` if it is built locally, and run again",
            retryable=False,
        ) from error
    except APIError as error:
        raise WorkspaceError(f"Docker refused: {error.explanation or error}") from error
    except RequestException as error:
        raise WorkspaceError(
            f"Docker stopped answering ({_short(error)}): start it and run again"
        ) from error
    except DockerException as error:
        raise WorkspaceError(
            f"no Docker daemon answers ({_short(error)}); start Docker, check DOCKER_HOST, "
            "or use `environment: host`",
            retryable=False,
        ) from error


@functools.cache
def find_data_folder() -> str | None:
    """Return the folder of Docker's data; None if it is on another machine."""
    folder = str(client().info()["DockerRootDir"])
    return folder if os.path.isdir(folder) else None  # noqa: PTH112 - the daemon's, as text


def remove_container(name: str) -> bool:
    """Kill and remove a container with its anonymous volumes. Return True if it existed.

    Never raises: a container that cannot be removed is left to the janitor, with a warning.
    """
    from docker.errors import APIError, NotFound

    try:
        client().api.remove_container(name, force=True, v=True)
    except NotFound:
        return False
    except Exception as error:  # a failure to close must not hide an earlier error
        if isinstance(error, APIError) and error.status_code == _CONFLICT:
            return True  # somebody else is removing it
        _log.warning("container %s is left behind: %s", name, error)
        return False
    return True


def _short(error: Exception) -> str:
    return one_line(error)[:200]


def machine() -> dict[str, float]:
    """Return what the daemon's machine has, by the name of the setting; blocking.

    `disk_gb` is missing if the daemon is on another machine.

    Raises:
        WorkspaceError: no daemon, or Docker failed.
    """
    with docker_errors("none"):
        info = client().info()
    found = {"memory_gb": info["MemTotal"] / GB, "cpus": float(info["NCPU"])}
    with suppress(OSError):
        found["disk_gb"] = shutil.disk_usage(info["DockerRootDir"]).free / GB
    return found
