"""The Docker daemon of this process: its client, errors and machine, and programs in containers.

The witness compares files of a container with its image, from another container of the image.
"""

import asyncio
import functools
import json
import logging
import os
import shutil
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import sleep
from typing import Any

from agent.errors import WorkspaceError, one_line
from agent.workspaces import apart, ownership
from agent.workspaces.apart import Interpreter, NoPython
from agent.workspaces.limits import GB
from agent.workspaces.shell import Output

_CLIENT_LOCK = threading.Lock()
_CONFLICT = 409
_KILLED = 137

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
            f"Docker stopped answering ({one_line(error)[:200]}): start it and run again"
        ) from error
    except DockerException as error:
        raise WorkspaceError(
            f"no Docker daemon answers ({one_line(error)[:200]}); start Docker, check DOCKER_HOST, "
            "or use `environment: host`",
            retryable=False,
        ) from error


@functools.cache
def find_data_folder() -> str | None:
    """Return the folder of Docker's data; None if it is on another machine."""
    folder = str(client().info()["DockerRootDir"])
    return folder if os.path.isdir(folder) else None  # noqa: PTH112 - the daemon's, as text


left_behind: set[str] = set()
"""Containers that this process could not remove. They are the janitor's, although it lives."""


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
            return True  # another process is removing it
        _log.warning("container %s is left behind: %s", name, error)
        left_behind.add(name)
        return False
    return True


def machine() -> dict[str, float]:
    """Return the resources of the daemon's machine, by the name of the setting; blocking.

    `disk_gb` is missing if the daemon is on another machine.

    Raises:
        WorkspaceError: no daemon, or Docker failed.
    """
    with docker_errors("none"):
        info = client().info()
    resources = {"memory_gb": info["MemTotal"] / GB, "cpus": float(info["NCPU"])}
    with suppress(OSError):
        resources["disk_gb"] = shutil.disk_usage(info["DockerRootDir"]).free / GB
    return resources


class Frames:
    """The output inside Docker's framing: 4 bytes of stream number, 4 of length, payload."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._left = 0

    async def read(self, limit: int) -> bytes:
        try:
            while not self._left:
                (self._left,) = struct.unpack(">4xL", await self._reader.readexactly(8))
        except asyncio.IncompleteReadError:
            return b""
        data = await self._reader.read(min(limit, self._left))
        self._left -= len(data)
        return data


class ContainerProgram:
    """A program in a container, next to the command server."""

    def __init__(self, exec_id: str, reader: Frames, writer: asyncio.StreamWriter) -> None:
        self._exec_id = exec_id
        self._reader = reader
        self._writer = writer

    async def talk(self, stdin: bytes, output: Output) -> int:
        """Send the program its input, and add what it prints to `output`. Return its exit code."""
        await apart.exchange(self._reader, self._writer, stdin, output)
        exit_code = await asyncio.to_thread(exit_code_of, self._exec_id)
        return _KILLED if exit_code is None else exit_code

    def close(self) -> None:
        """End the connection. The program can continue."""
        self._writer.close()


def exit_code_of(exec_id: str) -> int | None:
    """Return the exit code of a program whose stream ended; None if Docker has none; blocking."""
    for _ in range(20):  # the stream can end a moment before Docker records the exit code
        exit_code: int | None = client().api.exec_inspect(exec_id)["ExitCode"]
        if exit_code is not None:
            return exit_code
        sleep(0.05)
    return None


def socket_of(stream: Any) -> socket.socket:
    """Return the socket of a started exec.

    Raises:
        WorkspaceError: the connection has none.
    """
    if not isinstance(stream, socket.SocketIO):
        raise WorkspaceError(
            "the Docker connection has no plain socket for commands (TLS and ssh:// have "
            "none); use a unix socket or tcp:// without TLS in DOCKER_HOST",
            retryable=False,
        )
    # A duplicate, so that the HTTP response that owns the original can be closed.
    duplicate = socket.socket(fileno=os.dup(stream.fileno()))
    stream._response.close()  # type: ignore[attr-defined]  # set by the Docker client
    duplicate.setblocking(False)
    return duplicate


_CAPABILITIES = (
    "DAC_OVERRIDE",
    "SYS_PTRACE",  # to see the root of a process of another user
    "SYS_CHROOT",
    # Processes of a workspace can have these. They could otherwise write to this process.
    "CHOWN",
    "FOWNER",
    "SETUID",
    "SETGID",
    "KILL",
)

_MEMORY_BYTES = 2**29

_OTHERS = ("__pycache__", "site-packages", "dist-packages")
"""Folders next to the interpreter's modules that it does not read with its options."""

_COMPARE = """
import hashlib, json, os, stat, sys
files, folders, others = json.loads(sys.argv[1])

def state(path, size=None):
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return os.readlink(path)
        if not stat.S_ISREG(status.st_mode):
            return stat.S_IFMT(status.st_mode)
        if size not in (None, status.st_size):
            return status.st_size, None
        with open(path, "rb") as file:
            return status.st_size, hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        return error.errno

def paths():
    names = set(files)
    for folder in folders:
        if os.path.isdir(folder):
            names.update(os.path.join(folder, name) for name in os.listdir(folder))
    return {name for name in names if os.path.basename(name) not in others}

image = {path: state(path) for path in paths()}
os.chroot("/proc/1/root")
os.chdir("/")
for path in sorted(paths() | set(image)):
    expected = image.get(path)
    size = expected[0] if isinstance(expected, tuple) else 0
    if path not in image or state(path, size) != expected:
        print(json.dumps(path))
        break
else:
    print(json.dumps(None))
"""
"""Prints a path at which the root of process 1 differs, as JSON, or null."""


def find_change(container: str, image: str, python: Interpreter) -> str | None:
    """Return a file of the interpreter that a container has changed, or None; blocking.

    An unchanged interpreter of the image reads the files, in a container that sees
    the processes of the other one. Contents are compared, since a command can restore the size and
    the date of a file, and `docker diff` compares only these.

    Raises:
        NoPython: they cannot be compared.
        WorkspaceError: the container is gone, or Docker failed.
    """
    from docker import types

    compared = json.dumps([python.files, python.folders, _OTHERS])
    path, *options = python.command
    with docker_errors(image):
        witness = client().containers.create(
            image,
            [*options, "-c", _COMPARE, compared],
            name=ownership.container_name(),
            entrypoint=[path],
            pid_mode=f"container:{container}",
            labels=ownership.labels({"durabench": "workspace"}),
            user="0",
            network_mode="none",
            cap_drop=["ALL"],
            cap_add=list(_CAPABILITIES),
            security_opt=["no-new-privileges"],
            log_config=types.LogConfig(type="none"),
            mem_limit=_MEMORY_BYTES,
            memswap_limit=_MEMORY_BYTES,
        )
        try:
            stream = witness.attach(stream=True)
            witness.start()
            printed = b"".join(stream)
        finally:
            remove_container(witness.id)
    try:
        changed: str | None = json.loads(printed)
    except ValueError:
        raise NoPython("the interpreter of the image cannot be compared with it") from None
    return changed
