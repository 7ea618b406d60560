"""The volume that holds the files of a program. It is filled once per machine."""

import asyncio
import fcntl
import hashlib
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.arms.command.launch import AGENT_FOLDER
from agent.arms.command.recipe import Install
from agent.errors import WorkspaceError
from agent.workspaces import docker_daemon
from agent.workspaces.lifetime import uninterrupted

_LABELS = {"durabench": "agent"}
_COMPLETE = "-complete"


async def volume(install: Install) -> str:
    """Return the name of the volume with an installed program, which is filled if need be.

    Raises:
        WorkspaceError: there is no such image or folder, or the installation failed.
    """
    return await uninterrupted(asyncio.to_thread(_volume, install))


def _volume(install: Install) -> str:
    with docker_daemon.docker_errors(install.image or "none"):
        daemon = docker_daemon.client()
        name = f"durabench-agent-{_digest(daemon, install)}"
        with _lock(name):
            _ensure(daemon, name, install)
    return name


def _ensure(daemon: Any, name: str, install: Install) -> None:
    """Fill the volume, unless that was done before."""
    if _exists(daemon, f"{name}{_COMPLETE}"):
        return
    _remove(daemon, name)
    daemon.volumes.create(name, labels=_LABELS)
    try:
        _fill(daemon, name, install)
    except BaseException:
        _remove(daemon, name)
        raise
    # A volume cannot be renamed, nor its labels changed, so another one says it is whole.
    daemon.volumes.create(f"{name}{_COMPLETE}", labels=_LABELS)


def _digest(daemon: Any, install: Install) -> str:
    """Return a digest of where the files come from, so that others get another volume."""
    content = install.model_dump_json()
    if install.folder is not None:
        content += str(_newest(install.folder.resolve()))
    elif not install.run:
        content += str(daemon.images.get(install.image).id)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _newest(folder: Path) -> float:
    """Return when a folder was last installed into."""
    try:
        return max(each.stat().st_mtime for each in (folder, *folder.iterdir()))
    except OSError as error:
        raise WorkspaceError(
            f"no folder {folder} with a program: {error}", retryable=False
        ) from None


def _fill(daemon: Any, name: str, install: Install) -> None:
    from docker import types

    image = install.image or _any_image(daemon)
    mount = types.Mount(AGENT_FOLDER, name, type="volume")
    command = ["sh", "-ec", install.run or ":"]
    made = daemon.containers.create(
        image, entrypoint=command, mounts=[mount], user="0", labels=_LABELS, network_mode="bridge"
    )
    try:
        if install.folder is not None:
            with tempfile.TemporaryFile() as archive:
                with tarfile.open(fileobj=archive, mode="w") as tar:
                    tar.add(install.folder.resolve(), ".")
                archive.seek(0)
                made.put_archive(AGENT_FOLDER, archive)
        if install.run:
            made.start()
            code = made.wait()["StatusCode"]
            if code:
                words = made.logs(tail=20).decode("utf-8", "replace").strip()
                raise WorkspaceError(
                    f"the program could not be installed, exit code {code}: {words[-500:]}",
                    retryable=False,
                )
    finally:
        made.remove(force=True)


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
