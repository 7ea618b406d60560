"""A workspace in a Docker container of its own."""

import asyncio
import functools
import json
import logging
import os
import secrets
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import sleep
from typing import Any, Self

from agent.errors import WorkspaceError
from agent.workspaces import ownership
from agent.workspaces.lifetime import uninterrupted
from agent.workspaces.protocol import Environment
from agent.workspaces.repository import PAGERS_OFF, ShellWorkspace
from agent.workspaces.shell import Shell, server_command

CAPABILITIES = (
    "CHOWN",  # pip, tar and test suites change owners
    "DAC_OVERRIDE",  # root edits what another user of the image owns
    "FOWNER",  # chmod and utime on such files
    "SETUID",  # su, and services that tests start as another user
    "SETGID",
    "KILL",  # and end those again
)
"""What root keeps inside. The rest (raw sockets, devices, chroot, ...) is dropped."""

COMMAND_ENVIRONMENT = {
    **PAGERS_OFF,
    # SWE-bench images activate the conda environment `testbed` there, for a fifth of a second.
    # A login shell has mostly been there through ~/.profile; bash expands this value, and
    # passes over a file that does not exist.
    "BASH_ENV": "/root/.bashrc$(shopt -q login_shell && [[ $CONDA_PREFIX ]] && echo .is-read)",
}

OFFLINE_ENVIRONMENT = {
    "PIP_RETRIES": "0",
    "UV_HTTP_RETRIES": "0",
    "CONDA_REMOTE_MAX_RETRIES": "0",
    "npm_config_fetch_retries": "0",  # of npm, and of pnpm before 11
    "pnpm_config_fetch_retries": "0",
    "YARN_HTTP_RETRY": "0",
    "BUNDLE_RETRY": "0",
    "CARGO_NET_RETRY": "0",
}
"""Of containers without network, where an installer that tries again only waits. They change
how often one asks, never what it asks for. Go and composer have no such setting; those of
Maven and Gradle share a variable with options that images and scripts set."""

WORKSPACE_LABEL = "durabench=workspace"
"""On every container of a workspace."""

NAME_PREFIX = "durabench-"
"""Of the containers' names, which go on with the process that has the container now."""

ROOT = "/testbed"
"""Where the images of SWE-bench have the repository."""

_SCRATCH = "/var/tmp/.durabench"  # noqa: S108 - inside a container of our own
_PROCESS_MARK = "container"  # processes of other containers are out of sight anyway
_CPU_PERIOD_US = 100_000
_STREAM_BYTES = 2**20
_CLIENT_LOCK = threading.Lock()

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What one container may use."""

    memory_bytes: int = 4 * 2**30
    """The suites of the larger SWE-bench repositories stay under 3 GiB; swap is not added."""
    pids: int = 1024
    """Parallel test runners need hundreds; a fork bomb stops here instead of at the host's."""
    cpus: float = 2.0
    """As a share of time, so that a machine with fewer takes it too; equal for every arm."""


class DockerWorkspace(ShellWorkspace):
    """One container, without network unless asked for, and one `docker exec` in it.

    Commands run as the image's user. The host's environment is not passed on and nothing of
    the host is mounted.
    """

    environment: Environment = "docker"

    def __init__(
        self, container: "_Container", shell: Shell, *, root: str, base_commit: str
    ) -> None:
        """Use `open`."""
        super().__init__(shell, root=root, base_commit=base_commit, scratch=_SCRATCH)
        self._container = container

    @classmethod
    async def open(
        cls,
        *,
        image: str,
        base_commit: str,
        root: str = ROOT,
        labels: Mapping[str, str] | None = None,
        network: bool = False,
        limits: Limits | None = None,
        adopt: str | None = None,
    ) -> Self:
        """Create and start a container from a local image.

        With `adopt`, a label such as `durabench.attempt=17`, a container of this user that
        carries it and is of the same image and network is taken over instead, if there is
        one: nothing runs in it any more, its files are as they were left (`restore` puts
        the work tree right), and whoever had it before can neither use nor remove it. Only
        the holder of the attempt's lease may ask for that.

        Raises:
            WorkspaceError: no daemon, no such image, no bash or no folder `root` in it (none
                of these is retryable), or Docker failed.
        """
        if adopt is not None:
            adopted = await cls._adopt(image, adopt, _network_mode(network), root, base_commit)
            if adopted is not None:
                return adopted
        container = _Container(image)
        options = _options(ownership.labels(labels or {}), network, limits or Limits())
        try:
            await uninterrupted(asyncio.to_thread(container.start, options))
            shell = await container.connect(root)
            workspace = cls(container, shell, root=root, base_commit=base_commit)
            await workspace._begin()
        except BaseException:
            await uninterrupted(container.close())
            raise
        return workspace

    @classmethod
    async def _adopt(
        cls, image: str, label: str, network_mode: str, root: str, base_commit: str
    ) -> Self | None:
        """A workspace in a container that was left; one that is not fit for it is removed."""
        container = _Container(image)
        try:
            take = functools.partial(container.adopt, label, network_mode)
            if not await uninterrupted(asyncio.to_thread(take)):
                return None
            shell = await container.connect(root)
            workspace = cls(container, shell, root=root, base_commit=base_commit)
            if await workspace._begin_again():
                return workspace
        except WorkspaceError as error:  # a new container does as well, or says what is wrong
            _log.warning("a container with %s could not be taken over: %s", label, error)
        except BaseException:
            await uninterrupted(container.close())
            raise
        await uninterrupted(container.close())
        return None

    @property
    def container_id(self) -> str:
        return self._container.id

    @property
    def image_digest(self) -> str:
        """The image's content id, `sha256:...`, whatever its tag names later."""
        return self._container.image_digest

    async def snapshot(self) -> str:
        """Keep the container's file system as an image; its id. What is ignored by git then
        counts as having been there at the opening.

        Raises:
            WorkspaceError: the container is gone, or Docker failed.
        """
        await self._git("firmly settle", "snapshot", retryable=True)
        return await uninterrupted(asyncio.to_thread(self._container.commit))

    async def close(self) -> None:
        """Kill and remove the container with its anonymous volumes."""
        await uninterrupted(self._container.close())


async def docker_available() -> str | None:
    """None when a Docker daemon answers, otherwise one line that says why not."""

    def ping() -> str | None:
        try:
            with docker_errors("none"):
                client().ping()
        except WorkspaceError as error:
            return str(error)
        return None

    return await asyncio.to_thread(ping)


class _Container:
    """The life of one container. Its methods raise `WorkspaceError`, `close` nothing."""

    def __init__(self, image: str) -> None:
        self.id = ""
        self.image_digest = ""
        self._image = image
        # Chosen here, so that a creation whose answer is lost can still be undone.
        self._name = f"{NAME_PREFIX}{ownership.process()}-{secrets.token_hex(6)}"
        self._stream: socket.socket | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._created = False

    def start(self, options: dict[str, Any]) -> None:
        """Create and start; blocking."""
        with docker_errors(self._image):
            self._created = True
            container = client().containers.create(self._image, name=self._name, **options)
            self.id = container.id
            self.image_digest = container.attrs["Image"]
            container.start()

    def adopt(self, label: str, network_mode: str) -> bool:
        """Take over a container with that label, if there is one; blocking.

        The new name is the claim: whoever had the container does not find it any more.
        Starting it again ends every process in it, and an exec that hangs, and serves one
        that Docker's own end has stopped.
        """
        from docker.errors import ImageNotFound

        with docker_errors(self._image):
            daemon = client()
            try:
                digest = daemon.images.get(self._image).id
            except ImageNotFound:  # which a new container is refused for, too
                return False
            for found in owned_containers(daemon, label):
                host = found.attrs["HostConfig"]
                if (found.attrs["Image"], host["NetworkMode"]) != (digest, network_mode):
                    continue
                found.rename(self._name)
                self._created = True
                self.id, self.image_digest = found.id, digest
                if found.status == "paused":
                    found.unpause()
                found.restart(timeout=0)
                return True
        return False

    def commit(self) -> str:
        """Keep the file system as an image with the container's labels; its id; blocking."""
        with docker_errors(self._image):
            found = client().containers.get(self._name)
            labels = {**found.labels, "durabench": "snapshot"}
            lines = [
                f"LABEL {json.dumps(name)}={json.dumps(text)}" for name, text in labels.items()
            ]
            return str(found.commit(changes="\n".join(lines)).id)

    async def connect(self, root: str) -> Shell:
        """Start the command server and wait until it answers."""
        exec_id = await uninterrupted(asyncio.to_thread(self._open_exec, root))
        reader, writer = await asyncio.open_connection(sock=self._stream, limit=_STREAM_BYTES)
        self._writer = writer
        shell = Shell(_Frames(reader), writer, name=f"container {self._name} of {self._image}")
        try:
            await shell.greet()
        except WorkspaceError as error:
            await asyncio.to_thread(self._explain_no_start, exec_id, root, error)
            raise
        return shell

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        elif self._stream is not None:
            self._stream.close()
        if self._created:
            self._created = False
            await asyncio.to_thread(remove_container, self._name)

    def _open_exec(self, root: str) -> str:
        """Start the server and set `_stream` to its socket; returns Docker's id for it."""
        with docker_errors(self._image):
            api = client().api
            command = server_command(root, _PROCESS_MARK)
            # Here and not with the container, whose own environment a grading restores.
            created = api.exec_create(
                self._name, command, stdin=True, stderr=False, environment=COMMAND_ENVIRONMENT
            )
            stream = api.exec_start(created["Id"], socket=True)
        if not isinstance(stream, socket.SocketIO):
            raise WorkspaceError(
                "the Docker connection has no plain socket for commands (TLS and ssh:// have "
                "none); use a unix socket or tcp:// without TLS in DOCKER_HOST",
                retryable=False,
            )
        # A duplicate, so that the HTTP response that owns the original can be closed.
        self._stream = socket.socket(fileno=os.dup(stream.fileno()))
        stream._response.close()  # type: ignore[attr-defined]  # set by the Docker client
        self._stream.setblocking(False)
        return str(created["Id"])

    def _explain_no_start(self, exec_id: str, root: str, error: WorkspaceError) -> None:
        """Raise what no retry helps against: the server could not start in this image."""
        with docker_errors(self._image):
            state = client().api.exec_inspect(exec_id)
            for _ in range(20):  # the stream can end a moment before Docker notes why
                if state["ExitCode"] is not None:
                    break
                sleep(0.05)
                state = client().api.exec_inspect(exec_id)
        if state["ExitCode"] in (1, 126, 127):
            raise WorkspaceError(
                f"image {self._image} cannot hold a workspace, for which it needs bash, "
                f"coreutils, setsid and the folder {root}: {error}",
                retryable=False,
            )


class _Frames:
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


def _options(labels: dict[str, str], network: bool, limits: Limits) -> dict[str, Any]:
    return {
        "entrypoint": ["sleep"],  # the image's own entrypoint might do anything
        "command": ["infinity"],
        "init": True,  # reaps what commands leave behind
        "labels": {"durabench": "workspace", **labels},
        "network_mode": _network_mode(network),
        # With the container, not with its commands: a grading restores what process 1 has.
        "environment": {} if network else OFFLINE_ENVIRONMENT,
        "cap_drop": ["ALL"],
        "cap_add": list(CAPABILITIES),
        "security_opt": ["no-new-privileges"],
        "mem_limit": limits.memory_bytes,
        "memswap_limit": limits.memory_bytes,
        "pids_limit": limits.pids,
        # Unlike nano_cpus this is taken on machines that have fewer processors.
        "cpu_period": _CPU_PERIOD_US,
        "cpu_quota": int(limits.cpus * _CPU_PERIOD_US),
    }


def _network_mode(network: bool) -> str:
    return "bridge" if network else "none"


def owned_containers(daemon: Any, *labels: str) -> list[Any]:
    """The workspaces' containers of this user on this machine, in any state."""
    wanted = [WORKSPACE_LABEL, f"{ownership.OWNER}={ownership.owner()}", *labels]
    return list(daemon.containers.list(all=True, filters={"label": wanted}, ignore_removed=True))


def snapshots(daemon: Any) -> list[Any]:
    """The images that workspaces of this user on this machine were kept as."""
    wanted = ["durabench=snapshot", f"{ownership.OWNER}={ownership.owner()}"]
    return list(daemon.images.list(filters={"label": wanted}))


def remove_container(name: str) -> bool:
    """Kill and remove a container with its anonymous volumes; whether it was there.

    Never raises: what cannot be removed is left to the janitor, with a warning.
    """
    from docker.errors import NotFound

    try:
        client().api.remove_container(name, force=True, v=True)
    except NotFound:
        return False
    except Exception as error:  # closing never fails what came before it
        _log.warning("container %s is left behind: %s", name, error)
        return False
    return True


def client() -> Any:
    """One client for the whole process: connecting asks the daemon for its version."""
    with _CLIENT_LOCK:
        return _connect()


@functools.cache
def _connect() -> Any:
    import docker  # a third of a second that no host workspace should pay

    return docker.from_env(max_pool_size=64)


@contextmanager
def docker_errors(image: str) -> Iterator[None]:
    """Turn what the Docker client raises into a `WorkspaceError` that says what to do."""
    from docker.errors import APIError, DockerException, ImageNotFound
    from requests import RequestException

    try:
        yield
    except ImageNotFound as error:
        raise WorkspaceError(
            f"there is no image {image} on this machine: bring it with `docker pull {image}`, "
            "or with `durabench images build` where it is built here, and run again",
            retryable=False,
        ) from error
    except APIError as error:
        raise WorkspaceError(f"Docker refused: {error.explanation or error}") from error
    except RequestException as error:
        raise WorkspaceError(
            f"Docker stopped answering ({_one_line(error)}): start it and run again"
        ) from error
    except DockerException as error:
        raise WorkspaceError(
            f"no Docker daemon answers ({_one_line(error)}); start Docker, check DOCKER_HOST, "
            "or use `environment: host`",
            retryable=False,
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
