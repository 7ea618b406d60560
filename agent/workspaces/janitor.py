"""Finds and removes workspaces that dead programs left behind.

Only workspaces are removed that were made by this user's programs on this machine, whose process
has ended and whose attempt is not active. A workspace makes one container or one folder, and no
network or volume. Images that workspaces are saved as are kept until their attempt has ended.
"""

import asyncio
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import time
from typing import Any, Literal

from agent.errors import WorkspaceError
from agent.workspaces import container, docker_daemon, host, ownership


@dataclass(frozen=True)
class Leftover:
    """A container or folder that is no longer in use."""

    kind: Literal["container", "folder"]
    name: str
    """The container's name, or the folder's path."""
    attempt: str | None
    age_s: float

    def __str__(self) -> str:
        whose = f"attempt {self.attempt}" if self.attempt else "no attempt"
        return f"{self.kind} {self.name}: of {whose}, {self.age_s:.0f} s old, its program ended"


async def find(active: Collection[str]) -> list[Leftover]:
    """Return the containers and then the folders that `sweep` would remove.

    `active` are the attempts with a held lease, by the `durabench.attempt` label. Without a Docker
    daemon, no containers are found.

    Raises:
        WorkspaceError: Docker responds, but fails.
    """

    def search() -> list[Leftover]:
        return [
            leftover
            for leftover, process in [*_containers(), *_folders()]
            if leftover.attempt not in active and not ownership.lives(process)
        ]

    return await asyncio.to_thread(search)


async def sweep(active: Collection[str]) -> list[str]:
    """Remove the results of `find`, with the processes in them. Return a line for each removal.

    Raises:
        WorkspaceError: Docker responds, but fails.
    """
    leftovers = await find(active)
    return [str(leftover) for leftover in leftovers if await asyncio.to_thread(_remove, leftover)]


async def snapshots(journal_id: str) -> dict[str, set[str]]:
    """Return the images that workspaces of a journal's attempts were saved as, by attempt.

    Raises:
        WorkspaceError: Docker responds, but fails.
    """

    def search() -> dict[str, set[str]]:
        images: dict[str, set[str]] = {}
        if (client := _client()) is not None:
            with docker_daemon.docker_errors("none"):
                for image in container.snapshots(client, f"{ownership.JOURNAL}={journal_id}"):
                    images.setdefault(image.labels[ownership.ATTEMPT], set()).add(image.id)
        return images

    return await asyncio.to_thread(search)


async def remove_snapshots(images: Collection[str]) -> list[str]:
    """Remove such images, except for base images of others.

    Return a line for each removal.
    """

    def remove(image: str) -> bool:
        from docker.errors import APIError

        with docker_daemon.docker_errors(image):
            try:
                docker_daemon.client().images.remove(image, noprune=True)
            except APIError:
                return False
        return True

    removed = [image for image in sorted(images) if await asyncio.to_thread(remove, image)]
    return [f"image {image}: of an attempt that has ended" for image in removed]


def _client() -> Any | None:
    """Return the Docker client, or None if no daemon responds."""
    try:
        with docker_daemon.docker_errors("none"):
            client = docker_daemon.client()
            client.ping()
    except WorkspaceError:
        return None
    return client


def _containers() -> Iterator[tuple[Leftover, str]]:
    """Yield every container of this user, with the process that owns it."""
    if (client := _client()) is None:
        return
    with docker_daemon.docker_errors("none"):
        for item in container.list_own_containers(client):
            # Docker reports nanoseconds, but Python reads only six digits.
            created = datetime.fromisoformat(item.attrs["Created"][:19] + "+00:00")
            age_s = max(0.0, time() - created.timestamp())
            attempt = item.labels.get(ownership.ATTEMPT)
            # An adopted container has its new owner in its name, because labels cannot change.
            is_left = item.name in docker_daemon.left_behind
            process = "" if is_left else ownership.process_of(item.name)
            yield Leftover("container", item.name, attempt, age_s), process


def _folders() -> Iterator[tuple[Leftover, str]]:
    """Yield every folder of this user, with the process that owns it."""
    for folder in sorted(Path(tempfile.gettempdir()).resolve().glob(f"{host.PREFIX}*")):
        labels = host.read_labels(folder)
        if labels.get(ownership.OWNER) != ownership.owner():
            continue
        try:
            age_s = time() - (folder / host.LABELS_FILE).stat().st_mtime
        except OSError:  # its owner closed it in the meantime
            continue
        leftover = Leftover("folder", str(folder), labels.get(ownership.ATTEMPT), age_s)
        yield leftover, labels.get(ownership.PROCESS, "")


def _remove(leftover: Leftover) -> bool:
    """Return True if it existed and was removed."""
    if leftover.kind == "container":
        return docker_daemon.remove_container(leftover.name)
    try:
        host.discard(Path(leftover.name))
    except FileNotFoundError:
        return False
    return True
