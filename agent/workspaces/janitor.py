"""Finds what dead programs left of their workspaces, and removes it.

Touched is only what this user's programs made on this machine, whose process has ended and
whose attempt is not among those living. A workspace makes one container or one folder, and no
network or volume; the images that it may be kept as stay until their attempt has ended.
"""

import asyncio
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import time
from typing import Any, Literal

from agent.errors import WorkspaceError
from agent.workspaces import container, host, ownership


@dataclass(frozen=True)
class Leftover:
    """Something that nobody uses any more."""

    kind: Literal["container", "folder"]
    name: str
    """The container's name, or the folder's path."""
    attempt: str | None
    age_s: float

    def __str__(self) -> str:
        whose = f"attempt {self.attempt}" if self.attempt else "no attempt"
        return f"{self.kind} {self.name}: of {whose}, {self.age_s:.0f} s old, its program ended"


async def find(living: Collection[str], *, older_than_s: float = 0) -> list[Leftover]:
    """What `sweep` would remove: containers first, then folders.

    `living` are the attempts that somebody holds a lease of, by the `durabench.attempt`
    label. Without a Docker daemon there are no containers to find.

    Raises:
        WorkspaceError: Docker answers, but fails.
    """
    return await asyncio.to_thread(_find, frozenset(living), older_than_s)


async def sweep(living: Collection[str], *, older_than_s: float = 0) -> list[str]:
    """Remove what `find` finds, with the processes in it; a line for each that is gone.

    Raises:
        WorkspaceError: Docker answers, but fails.
    """
    found = await find(living, older_than_s=older_than_s)
    return [str(one) for one in found if await asyncio.to_thread(_remove, one)]


async def snapshots() -> dict[str, set[str]]:
    """The images that workspaces were kept as, by the attempt that they belong to.

    Raises:
        WorkspaceError: Docker answers, but fails.
    """
    return await asyncio.to_thread(_snapshots)


async def remove_snapshots(images: Collection[str]) -> list[str]:
    """Remove such images; a line for each that is gone."""
    removed = [image for image in sorted(images) if await asyncio.to_thread(_remove_image, image)]
    return [f"image {image}: of an attempt that has ended" for image in removed]


def _snapshots() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    if (client := _client()) is not None:
        with container.docker_errors("none"):
            for image in container.snapshots(client):
                found.setdefault(image.labels[ownership.ATTEMPT], set()).add(image.id)
    return found


def _client() -> Any | None:
    """The Docker client, where a daemon answers."""
    try:
        with container.docker_errors("none"):
            client = container.client()
            client.ping()
    except WorkspaceError:
        return None
    return client


def _find(living: Collection[str], older_than_s: float) -> list[Leftover]:
    candidates = [*_containers(), *_folders()]
    return [
        leftover
        for leftover, process in candidates
        if leftover.attempt not in living
        and leftover.age_s >= older_than_s
        and not ownership.lives(process)
    ]


def _containers() -> Iterator[tuple[Leftover, str]]:
    """Every container of this user, with the process that has it."""
    if (client := _client()) is None:
        return
    with container.docker_errors("none"):
        for found in container.owned_containers(client):
            # An adopted container has its new owner in its name; labels cannot change.
            process = found.name.removeprefix(container.NAME_PREFIX).rpartition("-")[0]
            attempt = found.labels.get(ownership.ATTEMPT)
            yield Leftover("container", found.name, attempt, _age_s(found)), process


def _folders() -> Iterator[tuple[Leftover, str]]:
    """Every folder of this user, with the process that has it."""
    for folder in sorted(Path(tempfile.gettempdir()).resolve().glob(f"{host.PREFIX}*")):
        labels = host.read_labels(folder)
        if labels.get(ownership.OWNER) != ownership.owner():
            continue
        try:
            age_s = time() - (folder / host.LABELS_FILE).stat().st_mtime
        except OSError:  # its owner closed it meanwhile
            continue
        leftover = Leftover("folder", str(folder), labels.get(ownership.ATTEMPT), age_s)
        yield leftover, labels.get(ownership.PROCESS, "")


def _age_s(found: Any) -> float:
    # Docker counts nanoseconds, of which Python reads six digits.
    created = datetime.fromisoformat(found.attrs["Created"][:19] + "+00:00")
    return max(0.0, time() - created.timestamp())


def _remove(leftover: Leftover) -> bool:
    """Whether it was there to be removed."""
    removers: dict[str, Callable[[str], bool]] = {
        "container": container.remove_container,
        "folder": _remove_folder,
    }
    return removers[leftover.kind](leftover.name)


def _remove_image(image: str) -> bool:
    """Whether it could be removed: one that another was made from stays until that is gone."""
    from docker.errors import APIError

    with container.docker_errors(image):
        try:
            container.client().images.remove(image, noprune=True)
        except APIError:
            return False
    return True


def _remove_folder(path: str) -> bool:
    try:
        host.discard(Path(path))
    except FileNotFoundError:
        return False
    return True
