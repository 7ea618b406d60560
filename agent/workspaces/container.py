"""A workspace in a separate Docker container."""

import asyncio
import json
import logging
import re
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from time import sleep
from typing import Any, Self

from agent.errors import Destroyed, Unfit, WorkspaceError
from agent.workspaces import apart, ownership
from agent.workspaces.docker_daemon import (
    ContainerProgram,
    Frames,
    client,
    docker_errors,
    exit_code_of,
    find_change,
    find_data_folder,
    remove_container,
    socket_of,
)
from agent.workspaces.limits import LimitObserver, ResourceLimits
from agent.workspaces.ownership import complete
from agent.workspaces.repository import PAGERS_OFF, Workspace
from agent.workspaces.shell import FinishedCommand, Shell, server_command
from agent.workspaces.workspace_values import Mount

CAPABILITIES = (
    "CHOWN",  # pip, tar and test suites change owners
    "DAC_OVERRIDE",  # root edits files of other users of the image
    "FOWNER",  # chmod and utime on such files
    "SETUID",  # su, and services that tests start as another user
    "SETGID",
    "KILL",  # and kill those processes
)
"""Capabilities that root keeps inside. The rest (raw sockets, devices, chroot, ...) is dropped."""

COMMAND_ENVIRONMENT = {
    **PAGERS_OFF,
    # SWE-bench images activate the conda environment `testbed` in this file, which takes a fifth of
    # a second. A login shell has usually read it through ~/.profile. bash expands this value and
    # ignores an empty one. Only root can usually read the file.
    "BASH_ENV": "$([[ -r /root/.bashrc ]] && ! { shopt -q login_shell && [[ $CONDA_PREFIX ]]; } && "
    "echo /root/.bashrc)",
}

OFFLINE_ENVIRONMENT = {
    "PIP_RETRIES": "0",
    "UV_HTTP_RETRIES": "0",
    "CONDA_REMOTE_MAX_RETRIES": "0",
    "npm_config_fetch_retries": "0",  # for npm, and for pnpm before 11
    "pnpm_config_fetch_retries": "0",
    "YARN_HTTP_RETRY": "0",
    "BUNDLE_RETRY": "0",
    "CARGO_NET_RETRY": "0",
}
"""Variables of containers without network, where an installer's retries only waste time.

They change how often an installer tries, never what it requests. Go and composer have no such
setting. Those of Maven and Gradle share a variable with options that images and scripts set.
"""

WORKSPACE_LABEL = "durabench=workspace"
"""Label of every workspace container."""

ROOT = "/testbed"
"""Location of the repository in SWE-bench images."""

_SCRATCH = "/var/tmp/.durabench"  # noqa: S108 - inside our container
_PROCESS_MARK = "container"  # processes of other containers are invisible anyway
_FIRST_PROCESS = 'trap "" HUP INT QUIT TERM; until sleep infinity; [ $? -le 128 ]; do :; done'
"""Process 1. The kernel protects it from commands, but not the process that it waits for.

It reaps the processes that commands leave behind. Docker's own init ends when its child is killed.
"""
_END_ALL = "kill -KILL -1"
_LIST_LARGE = ["find", "/", "-xdev", "-type", "f", "-size", "+1M", "-printf", "%s %b\\n"]
_CPU_PERIOD_US = 100_000
_KILLED = 137  # the exit code of a first process that SIGKILL ended
_SIGNALS = 128
"""Exit codes above it are of processes that a signal ended."""

_STREAM_BYTES = 2**20

_LOOK_TIMEOUT_S = 60.0

_interpreters: dict[str, apart.Interpreter] = {}
"""The interpreters of images that this process has used, by their content ids."""

_BAD_REQUEST = 400
_NO_TOOLS = "it cannot run bash and sleep: install bash and coreutils, and leave them on PATH"
_NO_SERVER = {
    1: "its user cannot enter the folder {root}: put the repository there, and let the user enter",
    126: _NO_TOOLS,
    127: _NO_TOOLS,
}
"""Reasons why the command server did not start, by its exit code."""

_log = logging.getLogger(__name__)


class DockerWorkspace(Workspace):
    """One container, without network unless requested, and one `docker exec` in it.

    Commands run as the image's user, and in a grading as root, as with the official runner. The
    host's environment is not passed on, and only the `mounts` of `open` are mounted, read-only.
    """

    environment = "docker"

    def __init__(
        self, container: "_Container", shell: Shell, *, root: str, base_commit: str
    ) -> None:
        """Use `open` instead."""
        super().__init__(shell, root=root, base_commit=base_commit, scratch=_SCRATCH)
        self._container = container
        self._observer = LimitObserver(ResourceLimits(), shell.pressure)
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        *,
        image: str,
        base_commit: str,
        root: str = ROOT,
        labels: Mapping[str, str] | None = None,
        network: bool = False,
        limits: ResourceLimits | None = None,
        mounts: Sequence[Mount] = (),
        adopt: str | None = None,
        grading: bool = False,
    ) -> Self:
        """Create and start a container from a local image.

        With `adopt`, a label such as `durabench.attempt=17`, reuse an existing container instead,
        if there is one: one of this user that has the label and the same image, network and limits.
        Its processes are ended and its files are left as they are (`restore` restores the work
        tree). Its previous owner can neither use nor remove it. Only the holder of the attempt's
        lease may adopt a container.

        Commands of a `grading` run as root, and need no repository.

        Raises:
            Unfit: no work is possible in containers of this image.
            WorkspaceError: no daemon or no such image (neither is retryable), or Docker failed.
        """
        limits = limits or ResourceLimits()
        options = _options(ownership.labels(labels or {}), network, limits, mounts)
        if adopt is not None:
            adopted = await cls._adopt(image, adopt, options, root, base_commit)
            if adopted is not None:
                return adopted._set_limits(limits)
        container = _Container(image)
        if grading:
            options["user"] = "0"
        try:
            await complete(asyncio.to_thread(container.start, options))
            shell = await container.connect(root)
            workspace = cls(container, shell, root=root, base_commit=base_commit)
            tools = f"{container.image_digest}, user {options.get('user', 'of the image')}"
            await workspace._begin(f"image {image}", tools, lenient=grading)
        except BaseException:
            await complete(container.close())
            raise
        return workspace._set_limits(limits)

    @classmethod
    async def _adopt(
        cls, image: str, label: str, options: dict[str, Any], root: str, base_commit: str
    ) -> Self | None:
        """Return a workspace in an existing container, or None. Remove an unusable container."""
        container = _Container(image)
        try:
            if not await complete(asyncio.to_thread(container.adopt, label, options)):
                return None
            shell = await container.connect(root)
            workspace = cls(container, shell, root=root, base_commit=base_commit)
            if await workspace._begin_again():
                return workspace
        except WorkspaceError as error:  # a new container works as well, or reports the error
            _log.warning("a container with %s could not be reused: %s", label, error)
        except BaseException:
            await complete(container.close())
            raise
        await complete(container.close())
        return None

    @property
    def container_id(self) -> str:
        return self._container.id

    @property
    def image_digest(self) -> str:
        """The image's content id, `sha256:...`, even if its tag later refers to another image."""
        return self._container.image_digest

    @property
    def limits_reached(self) -> Mapping[str, str]:
        """The limits that were reached since the opening."""
        return self._observer.get_reached(self._shell.pressure)

    def _set_limits(self, limits: ResourceLimits) -> Self:
        """Observe these limits, which the container has."""
        self._observer = LimitObserver(limits, self._shell.pressure)
        watching = self._observer.watch_disk(self._container.measure, self._container.close)
        self._watching = asyncio.create_task(watching)
        return self

    def _describe_limits(self) -> str:
        return self._observer.news(self._shell.pressure)

    async def _run_in_shell(self, command: str, **options: Any) -> FinishedCommand:
        with self._explain_failure():
            return await super()._run_in_shell(command, **options)

    async def _replace(self) -> None:
        with self._explain_failure():
            await super()._replace()

    @contextmanager
    def _explain_failure(self) -> Iterator[None]:
        """Name the limit that ended the container as the reason of a failure."""
        try:
            yield
        except WorkspaceError as error:
            if reason := self._observer.ending():
                raise Destroyed(reason) from error
            if self._observer.is_disk_full:
                raise WorkspaceError(
                    "the disk of Docker's machine is nearly full, so the container was ended: make "
                    "room, for example with `docker system prune`, and run again",
                    retryable=False,
                ) from error
            raise

    async def snapshot(self) -> str:
        """Save the container's file system as an image. Return the image's id.

        Files that git ignores then count as present at the opening.

        Raises:
            WorkspaceError: the container is gone, or Docker failed.
        """
        await self._git("firmly settle", "snapshot", retryable=True)
        return await complete(asyncio.to_thread(self._container.commit))

    @asynccontextmanager
    async def _python(self, program: str) -> AsyncIterator[apart.Process]:
        python = await self._find_interpreter()
        changed = await complete(
            asyncio.to_thread(find_change, self._container.id, self.image_digest, python)
        )
        if changed:
            raise apart.NoPython(f"{changed} was changed, so the interpreter of the image is gone")
        process = await self._container.run_apart(
            [*python.command, "-c", program],
            {**python.environment, "WORKSPACE_MARK": _PROCESS_MARK},
            self._root,
        )
        try:
            yield process
        finally:
            process.close()

    async def _find_interpreter(self) -> apart.Interpreter:
        """Return the interpreter of the image, from a container in which nothing has run."""
        if self.image_digest not in _interpreters:
            unused = _Container(self.image_digest)
            options = _options(ownership.labels({}), network=False, limits=ResourceLimits())
            try:
                await complete(asyncio.to_thread(unused.start, options))
                shell = await unused.connect(self._root)
                look = await shell.run(apart.look_command(), timeout_s=_LOOK_TIMEOUT_S)
            finally:
                await complete(unused.close())
            _interpreters[self.image_digest] = apart.read_interpreter(look.text)
        return _interpreters[self.image_digest]

    async def _revive(self) -> Shell:
        try:
            return await self._container.connect(self._root, first=_END_ALL)
        except WorkspaceError as error:
            if await asyncio.to_thread(self._container.is_alive):
                raise Destroyed(f"no shell can be started any more: {error}") from error
            if not self._shell.pressure.killed:  # an earlier kill would be the reason for the state
                self._observer.is_out_of_memory = await asyncio.to_thread(
                    self._container.is_out_of_memory
                )
            raise WorkspaceError(str(self._shell.gone)) from error

    async def close(self) -> None:
        """Kill and remove the container with its anonymous volumes."""

        async def end() -> None:
            if self._watching is not None:
                self._watching.cancel()
                await asyncio.gather(self._watching, return_exceptions=True)
            await self._container.close()

        await complete(end())


class _Container:
    """The life of one container. Its methods raise `WorkspaceError`; `close` raises nothing."""

    def __init__(self, image: str) -> None:
        self.id = ""
        self.image_digest = ""
        self._image = image
        # Chosen before creation, so that a creation whose answer is lost can still be undone.
        self._name = ownership.container_name()
        self._stream: socket.socket | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._created = False
        self._is_closed = False

    def start(self, options: dict[str, Any]) -> None:
        """Create and start the container; blocking."""
        from docker.errors import APIError

        with docker_errors(self._image):
            self._created = True
            container = client().containers.create(self._image, name=self._name, **options)
            self.id = container.id
            self.image_digest = container.attrs["Image"]
            try:
                container.start()
            except APIError as error:
                reason = str(error.explanation or error)
                if error.status_code == _BAD_REQUEST or "unable to find user" in reason:
                    raise Unfit.of(
                        f"image {self._image}",
                        f"none of its containers can start, as Docker says: {reason}",
                    ) from error
                raise

    def adopt(self, label: str, options: dict[str, Any]) -> bool:
        """Adopt a container with that label, and with the network and limits of the options;
        blocking.

        Return False if there is none.

        The new name is the claim: the previous owner can no longer find the container. Restarting
        it ends every process in it and any exec that hangs. A restart also works for a container
        that stopped when Docker ended.
        """
        from docker.errors import ImageNotFound

        host_config = {
            "NetworkMode": options["network_mode"],
            "Memory": options["mem_limit"],
            "PidsLimit": options["pids_limit"],
            "CpuQuota": options["cpu_quota"],
        }
        with docker_errors(self._image):
            daemon = client()
            try:
                digest = daemon.images.get(self._image).id
            except ImageNotFound:  # a new container is rejected for the same reason
                return False
            for container in list_own_containers(daemon, label):
                attributes = container.attrs
                if attributes["Image"] == digest and (
                    host_config.items() <= attributes["HostConfig"].items()
                ):
                    container.rename(self._name)
                    self._created = True
                    self.id, self.image_digest = container.id, digest
                    if container.status == "paused":
                        container.unpause()
                    container.restart(timeout=0)
                    return True
        return False

    def commit(self) -> str:
        """Save the file system as an image with the container's labels. Return its id; blocking."""
        with docker_errors(self._image):
            container = client().containers.get(self._name)
            labels = {**container.labels, "durabench": "snapshot"}
            lines = [
                f"LABEL {json.dumps(name)}={json.dumps(text)}" for name, text in labels.items()
            ]
            return str(container.commit(changes="\n".join(lines)).id)

    def measure(self, limit: int) -> tuple[int, int]:
        """Return the bytes of the files that were written, and the free bytes; blocking.

        Docker counts the holes of sparse files. They are subtracted only above the limit.
        """
        with docker_errors(self._image):
            daemon = client()
            listed = daemon.api.containers(size=True, filters={"name": f"^/{self._name}$"})
            used = sum(container.get("SizeRw") or 0 for container in listed)
            if used > limit:
                container = daemon.containers.get(self._name)
                large = container.exec_run(_LIST_LARGE, user="0", stderr=False).output
                for size, blocks in re.findall(rb"^(\d+) (\d+)$", large, re.MULTILINE):
                    used -= max(0, int(size) - 512 * int(blocks))
            folder = find_data_folder()
        return used, shutil.disk_usage(folder).free if folder else sys.maxsize

    def is_out_of_memory(self) -> bool:
        """Return True if a container that ended has lost a process for lack of memory; blocking.

        Its state lacks that if Docker noticed the end first. Then an event comes a moment later.
        """
        with docker_errors(self._image):
            state = client().containers.get(self._name).attrs["State"]
            if state["OOMKilled"] or state["ExitCode"] != _KILLED:
                return bool(state["OOMKilled"])
            ended = int(datetime.fromisoformat(state["FinishedAt"]).timestamp())
            filters = {"container": self.id, "event": "oom"}
            return any(client().events(since=ended - 1, until=ended + 2, filters=filters))

    def is_alive(self) -> bool:
        """Return True if the container runs, and still does a second later; blocking."""
        for _ in range(20):  # its processes end a moment before Docker records its own end
            with docker_errors(self._image):
                if client().containers.get(self._name).status != "running":
                    return False
            sleep(0.05)
        return True

    async def run_apart(
        self, command: list[str], environment: Mapping[str, str], folder: str
    ) -> ContainerProgram:
        """Start a program next to the command server."""

        def start() -> tuple[str, socket.socket]:
            with docker_errors(self._image):
                api = client().api
                created = api.exec_create(
                    self._name, command, stdin=True, environment=dict(environment), workdir=folder
                )
                return str(created["Id"]), socket_of(api.exec_start(created["Id"], socket=True))

        exec_id, stream = await complete(asyncio.to_thread(start))
        reader, writer = await asyncio.open_connection(sock=stream, limit=_STREAM_BYTES)
        return ContainerProgram(exec_id, Frames(reader), writer)

    async def connect(self, root: str, *, first: str = "") -> Shell:
        """Start the command server and wait until it responds. It runs `first` before all else."""
        if self._is_closed:
            raise WorkspaceError(f"container {self._name} is closed")
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()
        exec_id = await complete(asyncio.to_thread(self._open_exec, root, first))
        reader, writer = await asyncio.open_connection(sock=self._stream, limit=_STREAM_BYTES)
        self._writer = writer
        shell = Shell(Frames(reader), writer, name=f"container {self._name} of {self._image}")
        try:
            await shell.greet()
        except WorkspaceError as error:
            with docker_errors(self._image):
                exit_code = await asyncio.to_thread(exit_code_of, exec_id)
                # Its end also ends a server that has just started.
                await asyncio.to_thread(self._expect_running)
            if exit_code in _NO_SERVER:
                reason = _NO_SERVER[exit_code].format(root=root)
                raise Unfit.of(f"image {self._image}", reason) from error
            raise
        return shell

    async def close(self) -> None:
        self._is_closed = True
        if self._writer is not None:
            self._writer.close()
        elif self._stream is not None:
            self._stream.close()
        if self._created:
            self._created = False
            await asyncio.to_thread(remove_container, self._name)

    def _open_exec(self, root: str, first: str) -> str:
        """Start the server and set `_stream` to its socket. Return Docker's id of the exec."""
        from docker.errors import APIError

        with docker_errors(self._image):
            api = client().api
            command = server_command(root, _PROCESS_MARK, first)
            # Set on the exec and not on the container, whose own environment a grading restores.
            try:
                created = api.exec_create(
                    self._name, command, stdin=True, stderr=False, environment=COMMAND_ENVIRONMENT
                )
                stream = api.exec_start(created["Id"], socket=True)
            except APIError:
                self._expect_running()
                raise
        self._stream = socket_of(stream)
        return str(created["Id"])

    def _expect_running(self) -> None:
        """Raise `Unfit` if the first process has ended by itself and not by a signal."""
        state = client().api.inspect_container(self._name)["State"]
        if not state["Running"] and state["ExitCode"] < _SIGNALS:
            raise Unfit.of(f"image {self._image}", _NO_TOOLS)


def _options(
    labels: dict[str, str], network: bool, limits: ResourceLimits, mounts: Sequence[Mount] = ()
) -> dict[str, Any]:
    from docker import types

    return {
        "entrypoint": ["sh", "-c"],  # the image's own entrypoint might do anything
        "command": [_FIRST_PROCESS],
        "stop_signal": "SIGKILL",  # it ignores others, and a daemon that stops would wait
        "labels": {"durabench": "workspace", **labels},
        "hostname": "durabench",  # Docker's own differs for each container, and commands print it
        "network_mode": "bridge" if network else "none",
        # Set on the container, not on its commands: a grading restores the environment of process
        # 1.
        "environment": {} if network else OFFLINE_ENVIRONMENT,
        "cap_drop": ["ALL"],
        "cap_add": list(CAPABILITIES),
        "security_opt": ["no-new-privileges"],
        "log_config": types.LogConfig(type="none"),  # process 1 is open to writers
        "mem_limit": limits.memory_bytes,
        "memswap_limit": limits.memory_bytes,
        "pids_limit": limits.pids,
        "mounts": [
            types.Mount(
                mount.target,
                mount.source,
                type="bind" if mount.source.startswith("/") else "volume",
                read_only=True,
            )
            for mount in mounts
        ],
        # Unlike nano_cpus, this is accepted on machines that have fewer processors.
        "cpu_period": _CPU_PERIOD_US,
        "cpu_quota": int(limits.cpus * _CPU_PERIOD_US),
    }


def list_own_containers(daemon: Any, *labels: str) -> list[Any]:
    """Return the workspace containers of this user on this machine, in any state."""
    wanted = [WORKSPACE_LABEL, f"{ownership.OWNER}={ownership.owner()}", *labels]
    return list(daemon.containers.list(all=True, filters={"label": wanted}, ignore_removed=True))


def snapshots(daemon: Any, *labels: str) -> list[Any]:
    """Return the images that workspaces of this user on this machine were saved as."""
    wanted = ["durabench=snapshot", f"{ownership.OWNER}={ownership.owner()}", *labels]
    return list(daemon.images.list(filters={"label": wanted}))
