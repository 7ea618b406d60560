"""The volume that holds the files of a program. It is filled once per machine."""

import asyncio
import fcntl
import hashlib
import shlex
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.arms.command.recipe import Install, Recipe
from agent.errors import NoProgram, WorkspaceError
from agent.gateway import app
from agent.gateway.app import Address
from agent.workspaces import docker_daemon
from agent.workspaces.ownership import complete

_LABELS = {"durabench": "agent"}
_COMPLETE = "-complete"


async def volume(install: Install) -> str:
    """Return the name of the volume with an installed program. Fill it if necessary.

    Raises:
        WorkspaceError: there is no such image or folder, or the installation failed.
    """
    return await complete(asyncio.to_thread(_ensure, install))


def _ensure(install: Install) -> str:
    """Fill the volume, unless that was done before. Return its name."""
    with docker_daemon.docker_errors(install.image or "none"):
        daemon = docker_daemon.client()
        name = f"durabench-agent-{_digest(daemon, install)}"
        with _lock(name):
            if _exists(daemon, f"{name}{_COMPLETE}"):
                return name
            _remove(daemon, name)
            daemon.volumes.create(name, labels=_LABELS)
            try:
                _fill(daemon, name, install)
            except BaseException:
                _remove(daemon, name)
                raise
            # A volume cannot be renamed or relabelled, so a second one marks it as complete.
            daemon.volumes.create(f"{name}{_COMPLETE}", labels=_LABELS)
    return name


def _digest(daemon: Any, install: Install) -> str:
    """Return a digest of the source of the files, so that other files get another volume."""
    content = install.model_dump_json()
    if install.folder is not None:
        folder = install.folder.resolve()
        try:
            content += str(max(path.stat().st_mtime for path in (folder, *folder.iterdir())))
        except OSError as error:
            raise WorkspaceError(
                f"no folder {folder} with a program: {error}", retryable=False
            ) from None
    elif not install.run:
        content += str(daemon.images.get(install.image).id)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _fill(daemon: Any, name: str, install: Install) -> None:
    from docker import types

    image = install.image or _any_image(daemon)
    mount = types.Mount(AGENT_FOLDER, name, type="volume")
    command = ["sh", "-ec", install.run or ":"]
    container = daemon.containers.create(
        image, entrypoint=command, mounts=[mount], user="0", labels=_LABELS, network_mode="bridge"
    )
    try:
        if install.folder is not None:
            with tempfile.TemporaryFile() as archive:
                with tarfile.open(fileobj=archive, mode="w") as tar:
                    tar.add(install.folder.resolve(), ".")
                archive.seek(0)
                container.put_archive(AGENT_FOLDER, archive)
        if install.run:
            container.start()
            code = container.wait()["StatusCode"]
            if code:
                output = container.logs(tail=20).decode("utf-8", "replace").strip()
                raise WorkspaceError(
                    f"the program could not be installed, exit code {code}: {output[-500:]}",
                    retryable=False,
                )
    finally:
        container.remove(force=True)


def _any_image(daemon: Any) -> str:
    """Return an image that can carry files into a volume. Nothing in it is run."""
    for image in daemon.api.images():  # `images.list` fails if another program removes one
        return str(image["Id"])
    raise WorkspaceError("no image on this machine to fill a volume with", retryable=False)


def _exists(daemon: Any, name: str) -> bool:
    from docker.errors import NotFound

    try:
        daemon.volumes.get(name)
    except NotFound:
        return False
    return True


def _remove(daemon: Any, name: str) -> None:
    if _exists(daemon, name):
        daemon.volumes.get(name).remove()


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """Let one process of this machine at a time fill a volume."""
    path = Path(tempfile.gettempdir()) / f"{name}.lock"
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


SOCKET_FOLDER = "/run/durabench"
"""Folder of the socket in a container."""

AGENT_FOLDER = "/opt/agent"
"""Folder of the installed program in a container."""

NO_RELAY = 253
"""Exit code of the script if the relay does not start."""

_NODE = "$DURABENCH_AGENT/node_modules/node/bin/node"
_PORT = 8901
_LONGEST_VARIABLE = 128 * 1024
"""Bytes of one variable or argument, name and end included, that Linux passes to a program."""
_RELAY = (Path(app.__file__).with_name("relay.pl")).read_text(encoding="utf-8")

_WRITE_TASK = """\
export DURABENCH_TASK_FILE="${{TMPDIR:-/tmp}}/durabench-task.md"
printf %s {task} >"$DURABENCH_TASK_FILE" || exit
"""

_START_RELAY = """\
command -v perl >/dev/null || {{ echo 'there is no perl, which the relay needs'; exit {missing}; }}
perl -e {relay} {socket} {port} &
for _ in {{1..200}}; do (: </dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; sleep 0.02; done
(: </dev/tcp/127.0.0.1/{port}) 2>/dev/null || {{ echo 'the relay did not start'; exit {missing}; }}
"""


def script(recipe: Recipe, task: str, address: Address, variables: Mapping[str, str]) -> str:
    """Return the script that solves a task, with these and its own variables.

    Raises:
        NoProgram: the task is longer than a variable can be, and the recipe reads no file.
    """
    port = _PORT if address.socket else address.port
    variables = {
        "DURABENCH_TASK": task,
        "DURABENCH_URL": f"http://127.0.0.1:{port}",
        **variables,
    }
    task_bytes = len(task.encode("utf-8", "replace"))
    if len("DURABENCH_TASK=") + task_bytes >= _LONGEST_VARIABLE:
        texts = (recipe.run, *recipe.environment.values())
        if not any("DURABENCH_TASK_FILE" in text for text in texts):
            raise NoProgram(
                f"recipe {recipe.name}: the issue has {task_bytes} bytes, more than a variable "
                "can hold; let the program read the file `$DURABENCH_TASK_FILE` instead of "
                "`$DURABENCH_TASK`"
            )
        del variables["DURABENCH_TASK"]
    relay = ""
    if address.socket:
        path = f"{SOCKET_FOLDER}/{address.socket.name}"
        relay = _START_RELAY.format(
            missing=NO_RELAY, relay=shlex.quote(_RELAY), socket=path, port=_PORT
        )
    write_task = _WRITE_TASK.format(task=shlex.quote(task))
    return "\n".join([_exports(variables), write_task, relay, environment(recipe), recipe.run])


def probe(recipe: Recipe, agent_folder: str) -> str:
    """Return the script that prints the release of the program."""
    variables = {"DURABENCH_AGENT": agent_folder, "DURABENCH_URL": "", "DURABENCH_KEY": ""}
    return "\n".join([_exports(variables), environment(recipe), recipe.probe or ":"])


def environment(recipe: Recipe) -> str:
    """Return the exports of a recipe's variables. The shell expands their values."""
    runtime = {"DURABENCH_RUNTIME": _NODE} if recipe.runtime else {}
    variables = {**runtime, **recipe.environment}
    return "\n".join(f'export {name}="{value}"' for name, value in variables.items())


def _exports(variables: dict[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
